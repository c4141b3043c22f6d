// Package dashboard has the test of ../dashboard.json. It is a module of its own
// because the test evaluates the dashboard's expressions with Prometheus, which no
// user of package otel should have to depend on.
package dashboard
