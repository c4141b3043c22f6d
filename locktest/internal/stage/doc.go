// Package stage has the stages of pipelines that change one document, the
// projections of finds, and the order of documents. A stage that it does not know
// is refused, by name.
package stage
