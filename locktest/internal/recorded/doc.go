// Package recorded has what servers answered to commands.
package recorded
