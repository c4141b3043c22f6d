package history

import (
	"slices"

	"github.com/doclock/doclock/relations"
)

type History struct {
	Documents  []Document
	Operations []Operation
	Commands   []Command
	Faults     map[string]int // the number of faults of each kind

	// Apart is not 0 if the server has several members: the clock of each is within
	// so many nanoseconds of the processes' clocks. A member that was deposed
	// answers a command that changes nothing by an old document, and what it writes
	// is rolled back.
	Apart int64
}

// Document is one locked document: its rules and times, and its log at the end.
type Document struct {
	ID        string `json:"id"`
	Name      string `json:"name"` // of the rules, for people
	Rules     Rules  `json:"rules"`
	TTL       int64  `json:"ttl"` // milliseconds, like the next two
	WaitTTL   int64  `json:"waitTTL"`
	Tolerance int64  `json:"tolerance"`

	// Terms: acquires have terms of their own, leases are detached, resumed and
	// converted. The checker of linearizability doesn't know these.
	Terms bool `json:"terms,omitempty"`

	// Deleted: it may be deleted and made anew, so that its log is not complete.
	Deleted bool `json:"deleted,omitempty"`

	// Log has one line for every guarded write, in the order of their
	// application: "fence name". Each write appends its own line.
	Log []string `json:"log,omitempty"`
}

// Rules are relations: Rules[x][y] is x's relation to y.
type Rules map[string]map[string]Relation

// Relation is present where x respects y.
type Relation struct {
	Assertive bool `json:"assertive,omitempty"` // waits; otherwise it is refused
	Allow     int  `json:"allow,omitempty"`
}

// Plain is the checker's form of the rules.
func Plain(rules relations.Rules) Rules {
	t := Rules{}
	for x, row := range rules {
		t[x] = map[string]Relation{}
		for y, r := range row {
			if r.Kind != relations.None {
				t[x][y] = Relation{Assertive: r.Kind == relations.Assertive, Allow: r.Allow}
			}
		}
	}
	return t
}

// Kinds of operations.
const (
	TryAcquire       = "TryAcquire"
	Acquire          = "Acquire"
	Enqueue          = "Enqueue"
	Confirm          = "Confirm"
	Wait             = "Wait"
	Cancel           = "Cancel"
	Renew            = "Renew"
	Update           = "Update"
	UpdateAndRelease = "UpdateAndRelease"
	Release          = "Release"
	Claim            = "Claim" // a TryAcquire with SkipLocked
	Detach           = "Detach"
	Resume           = "Resume"
	Touch            = "Touch"
	Convert          = "Convert"
	Look             = "look" // with Remaining and Err: the validity that the holder sees
)

// Outcomes of operations.
const (
	Granted    = "granted"
	Waiting    = "waiting"
	Conflict   = "conflict"
	NotFound   = "not found"
	Lost       = "lost"
	Released   = "released" // refused, because the lease was already released
	Done       = "done"     // renewed, applied, released
	Unknown    = "unknown"
	Failed     = "failed" // certainly without effect
	StillValid = "valid"
	Over       = "over"
)

// Operation is one call of the library.
type Operation struct {
	Process  int    `json:"process"`
	Client   int    `json:"client"`
	Number   int64  `json:"number"` // within the process
	Kind     string `json:"kind"`
	Document string `json:"document"`
	Tag      string `json:"tag,omitempty"`
	ID       string `json:"id,omitempty"`     // the entry's
	Fence    int64  `json:"fence,omitempty"`  // of the lease
	TTL      int64  `json:"ttl,omitempty"`    // of the lease, in milliseconds; 0: the document's
	Least    int64  `json:"least,omitempty"`  // of the lease: others are kept out for so long
	Shared   bool   `json:"shared,omitempty"` // other holders may have the entry
	Key      string `json:"key,omitempty"`    // of a token
	Write    string `json:"write,omitempty"`  // its name in the document's log

	Call    int64  `json:"call"`             // nanoseconds on the process's clock
	Return  int64  `json:"return,omitempty"` // 0: it never returned
	Outcome string `json:"outcome,omitempty"`
	Error   string `json:"error,omitempty"`

	// Remaining is, for a look, the validity that the holder sees, in
	// nanoseconds from some instant between call and return.
	Remaining int64 `json:"remaining,omitempty"`
}

// Kinds of commands.
const (
	CommandAcquire         = "acquire"
	CommandConfirm         = "confirm"
	CommandRenew           = "renew"
	CommandRelease         = "release"
	CommandWrite           = "write"
	CommandWriteAndRelease = "write-and-release"
	CommandDetach          = "detach"
	CommandResume          = "resume"
	CommandTouch           = "touch"
	CommandConvert         = "convert"
	CommandDelete          = "delete" // of the document, with all entries
	CommandRead            = "read"
	commandNothing         = "nothing" // a read that found no document, and the second half of a handoff whose first found nothing
)

// Command is one message to the server, and its reply. A handoff is two: the
// release, with or without an update, and the successor's request directly
// after it in the same message.
type Command struct {
	Process  int    `json:"process"`
	Number   int64  `json:"number"` // within the process
	Kind     string `json:"kind"`
	Document string `json:"document"`
	Tag      string `json:"tag,omitempty"`
	ID       string `json:"id,omitempty"`
	Fence    int64  `json:"fence,omitempty"` // in its guard
	Key      string `json:"key,omitempty"`   // of a token
	From     string `json:"from,omitempty"`  // the entry that a conversion gives up
	K        int64  `json:"k,omitempty"`     // the number of a guarded write
	Write    string `json:"write,omitempty"`
	Owner    string `json:"owner,omitempty"` // of the entry that it may make
	Named    []Name `json:"named,omitempty"` // what a take-over ends, if it is granted

	Sent     int64 `json:"sent"`
	Answered int64 `json:"answered,omitempty"` // 0: it may be executed at any time from Sent on, or never
	Matched  bool  `json:"matched,omitempty"`  // answered with an image

	Image *Image `json:"image,omitempty"` // of the whole lock, after the command
	Own   *Entry `json:"own,omitempty"`   // of a release: the removed entry

	// Handed marks the request of a successor in a handoff. Inherits marks the
	// compare-and-set: there the successor's entry takes the holder's place,
	// and its fence follows the holder's, whatever the clock is.
	Handed   bool `json:"handed,omitempty"`
	Inherits bool `json:"inherits,omitempty"`

	// Claims marks an acquire of documents that are free: one that finds nothing says nothing of a document.
	Claims bool `json:"claims,omitempty"`

	// Newest marks a linearizable read: a primary that had a majority has answered it.
	Newest bool `json:"newest,omitempty"`

	// Ghost marks a duplicate that no driver sent, executed late.
	Ghost bool `json:"ghost,omitempty"`
}

// Name is an entry's id and fence; 0 while it waits.
type Name struct {
	ID    string `json:"id"`
	Fence int64  `json:"fence,omitempty"`
}

// asks says that the command may make or grant the entry with its id.
func (c *Command) asks() bool {
	return slices.Contains([]string{CommandAcquire, CommandConfirm, CommandResume, CommandConvert}, c.Kind)
}

// takes says that a take-over may have ended the entry. One that was answered without a grant has not.
func (c *Command) takes(a *arrival) bool {
	if c.Image != nil {
		if _, granted := c.Image.find(c.ID); !granted {
			return false
		}
	}
	return slices.ContainsFunc(c.Named, func(n Name) bool { return n.ID == a.ID && (n.Fence == a.Fence || a.Fence == 0) })
}

// Image is the lock field of a document after a command, or in a read.
type Image struct {
	Now     int64   `json:"now,omitempty"` // the server's clock in milliseconds; 0 if it isn't known
	Fence   int64   `json:"fence"`
	Broken  int64   `json:"broken,omitempty"` // the greatest fence of what a break or a take-over has ended
	Entries []Entry `json:"entries,omitempty"`
}

// Entry is one entry in an image. Times are milliseconds on the server's clock.
type Entry struct {
	Tag     string `json:"tag"`
	ID      string `json:"id"`
	Seq     int64  `json:"seq"`
	Fence   int64  `json:"fence,omitempty"` // 0: waiting
	Since   int64  `json:"since"`
	Expires int64  `json:"expires"`
	N       int64  `json:"n,omitempty"`
	Key     string `json:"key,omitempty"`
	Until   int64  `json:"until,omitempty"` // others are kept out until then, whatever the holder does
}

func (img *Image) find(id string) (Entry, bool) {
	for _, e := range img.Entries {
		if e.ID == id {
			return e, true
		}
	}
	return Entry{}, false
}
