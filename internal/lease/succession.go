package lease

import (
	"time"

	"github.com/doclock/doclock/internal/engine"
)

// Succession is the Locker, as a hold sees it that ends. It is called under no mutex
// of this package, but for Lost.
type Succession interface {
	// Next promises the lock to a waiter of this process: the Ending has its answer.
	// It is nil if none of them may have it.
	Next(engine.Grant) *engine.Successor

	// Ended is called after the verdict on each command that ends a hold, or may have
	// ended it.
	Ended(Ending)

	// Lost is the error of a loss. It is called under a hold's mutex.
	Lost(Loss) error

	// Refused is the error of a downgrade that was refused, as the image shows.
	Refused(img *engine.Image, g engine.Grant, tag string) error
}

// Ending is what has become of a hold's entry.
type Ending struct {
	Grant engine.Grant
	How   How

	// Answer is the successor's. With an image the lock was released, and the
	// outcome is the successor's: Granted since Sent, or not, as the image shows.
	// Without one nobody knows: the id may stand in the document.
	Answer engine.Answer

	// Unanswered may still make their entries, or have left them in the document.
	Unanswered []Unanswered
}

// How is how a hold has ended.
type How uint8

// The ways in which a hold ends.
const (
	Released   How = iota // to nobody, or it may have been
	HandedOver            // or it may have been, to the successor
	Detached              // or it may have been: no release of this process ends the entry, which stays in the document
	Abandoned             // it has given way to an entry whose release has failed, and nobody repeats that
)

// Unanswered are attempts of unknown outcome to make a request's entry.
type Unanswered struct {
	Request  engine.Request
	Attempts int
	Last     time.Time // when the last one ended
}
