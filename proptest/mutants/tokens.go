package mutants

// tokens remove the parts of rule 23: detach, resume and touch.
var tokens = []Mutant{
	{
		Name: "a detach goes by the id alone", Rule: 23,
		Why:  "a late acquire brought the id back after another holder: the token is another lease's",
		File: "internal/engine/detach.go",
		Edits: swap(`e.Guard(g)`,
			`g.Pin.and(bson.E{Key: e.path(g.Tag) + "." + idKey, Value: idValue(g.ID)})`),
		Tests: "^TestRule23DetachMatches", Packages: inEngine,
	},
	{
		Name: "a detach does not extend", Rule: 23,
		Why:  "the token is worth nothing when it arrives",
		File: "internal/engine/detach.go",
		Edits: swap(`		{Key: expiresKey, Value: d.extended("$$e", d.held)},
`,
			``),
		Tests: "^TestRule23DetachExtends$", Packages: inEngine,
	},
	{
		Name: "a detach leaves the validity", Rule: 23,
		Why:  "a user releases the lock, another client is let in, and the lease still counts as valid",
		File: "internal/lease/detach.go",
		Edits: swap(`	s.finish(ErrReleased) // before anything is sent
`,
			``),
		Tests: "^TestRule23DetachEndsTheValidity", Packages: inHold,
	},
	{
		Name: "a shared entry is detached", Rule: 23,
		Why:  "a user releases the entry of the other holders",
		File: "internal/lease/detach.go",
		Edits: swap(`		err = ofSeveral("Detach", h.Tag())
`,
			`		h.hold.renewing.take()
		v = &verdict{done: make(chan struct{})}
`),
		Tests: "^TestRule23DetachOfASharedEntry", Packages: inHold,
	},
	{
		Name: "holders join a detached entry", Rule: 23,
		Why:  "the new holder holds what a user of the token may release",
		File: "internal/lease/hold.go",
		Edits: swap(`	if s.releasing || s.detached || s.suspended`,
			`	if s.releasing || s.suspended`),
		Tests: "^TestRule23NobodyJoins", Packages: inHold,
	},
	{
		Name: "a resume keeps the id", Rule: 23,
		Why:  "two users end by a write; the first one's comes too late, and is reported as applied",
		File: "internal/engine/resume.go",
		Edits: swap(`		{Key: idKey, Value: id},
`,
			"\t\t{Key: idKey, Value: \"$$e.\" + idKey},\n"),
		Tests: "^TestRule23ResumeGivesANewID$", Packages: inEngine,
	},
	{
		Name: "a resume keeps the fencing token", Rule: 23,
		Why:  "two handles have the same fencing token",
		File: "internal/engine/resume.go",
		Edits: swap(`{Key: fenceKey, Value: "$$next"}`,
			`{Key: fenceKey, Value: "$$e." + fenceKey}`),
		Tests: "^TestRule23(ResumeGivesANewFence|LateResume)", Packages: inEngine,
	},
	{
		Name: "a resume does not raise lock.fence", Rule: 23,
		Why:  "a handle and the next holder have the same fencing token",
		File: "internal/engine/resume.go",
		Edits: swap(`d.change("$$next", mapped(`,
			`d.change(d.lock+"."+fenceKey, mapped(`),
		Tests: "^TestRule23ResumeGivesANewFence$", Packages: inEngine,
	},
	{
		Name: "a resume keeps the number", Rule: 23,
		Why:  "both users number their write 1: the second is taken for a repeat of the first",
		File: "internal/engine/resume.go",
		Edits: swap(`		{Key: tokenKey, Value: key},
`,
			"\t\t{Key: tokenKey, Value: key},\n\t\t{Key: writeKey, Value: \"$$e.\" + writeKey},\n"),
		Tests: "^TestRule23ResumeRemovesTheNumber$", Packages: inEngine,
	},
	{
		Name: "a resume keeps nobody out for an earlier handle", Rule: 23,
		Why:  "a second user resumes and releases, and another client is granted while the first user's lease is valid",
		File: "internal/engine/resume.go",
		Edits: swap(`call("$max", args{"$$e." + untilKey, "$$e." + expiresKey})`,
			`orElse("$$e."+untilKey, "$$REMOVE")`),
		Tests: "^TestRule23OthersAreKeptOut", Packages: inLocker,
	},
	{
		Name: "a resume leaves the entry detached", Rule: 23,
		Why:  "a second user resumes and releases, and another client is granted while the first user's lease is valid",
		File: "internal/engine/resume.go",
		Edits: swap(`		{Key: tokenKey, Value: key},
`,
			"\t\t{Key: tokenKey, Value: key},\n\t\t{Key: detachedKey, Value: \"$$e.\" + detachedKey},\n"),
		Tests: "^TestRule23OthersAreKeptOut", Packages: inLocker,
	},
	{
		Name: "a release by id ends a token's entry", Rule: 23,
		Why:  "a late resume brings the first user's id back; its release ends the lock of the others",
		File: "internal/engine/leave.go",
		Edits: swap(`call("$gt", "$$e."+untilKey, now), "$$e."+tokenKey)`,
			`call("$gt", "$$e."+untilKey, now), false)`),
		Tests: "^TestRule23LateResume", Packages: inEngine,
	},
	{
		Name: "a clean-up removes a token's entry", Rule: 23,
		Why:  "the clean-up of an acquire ends the lock that was detached",
		File: "internal/engine/remove.go",
		Edits: swap(`, {Key: tokenKey, Value: nil}}`,
			`}`),
		Tests: "^TestRule23CleanUpSpares", Packages: inEngine,
	},
	{
		Name: "a piggybacked handoff leaves the key", Rule: 23,
		Why:  "the token resumes the lock of another holder",
		File: "internal/engine/handoff.go",
		Edits: swap(`	if g.Key != uuid.Nil {`,
			`	if g.Key != uuid.Nil && g.Tag == "" {`),
		Tests: "^TestRule23SuccessorsHaveNoKey$", Packages: inEngine,
	},
	{
		Name: "a remainder keeps the key", Rule: 23,
		Why:  "the token resumes a lock that was released",
		File: "internal/engine/leave.go",
		Edits: swap(`[]string{ownerKey, seqKey, fenceKey, sinceKey}`,
			`[]string{ownerKey, seqKey, fenceKey, sinceKey, tokenKey}`),
		Tests: "^TestRule23OthersAreKeptOut", Packages: inLocker,
	},
	{
		Name: "a remainder of a classic update keeps the key", Rule: 23,
		Why:  "the token resumes a lock that was released",
		File: "internal/engine/leave.go",
		Edits: swap(`		add(entry+tokenKey, nothing).
`,
			``),
		Tests: "^TestRule23OthersAreKeptOut", Packages: inLocker,
	},
	{
		Name: "a resume is repeated by another id", Rule: 23,
		Why:  "the entry is not the lease's",
		File: "multilock/resume.go",
		Edits: swap(`		got.Answer, err = a.locker.commands.Resume(ctx, k, a.request.Request)
`,
			`		got.Answer, err = a.locker.commands.Resume(ctx, k, a.request.Request)
		a.request.ID = uuid.New()
`),
		Tests: "^TestDetachAndResume$", Packages: inLocker,
	},
	{
		Name: "a detach that a resume has overtaken is lost", Rule: 23,
		Why:  "the caller has no token of a lock that lives on",
		File: "internal/lease/detach.go",
		Edits: swap(`	case img != nil && img.Lock.Keyed(k.Tag, k.Key):`,
			`	case img == nil:`),
		Tests: "^TestDetachFindsOutByTheKey", Packages: inHold,
	},
	{
		Name: "after a detach of unknown outcome the id alone is released", Rule: 23,
		Why:  "the entry has a key: another user's lock ends",
		File: "internal/lease/detach.go",
		Edits: swap(`		g.Key = s.key
`,
			``),
		Tests: "^TestDetachOfUnknownOutcome$", Packages: inHold,
	},
	{
		Name: "waiters wait for a detached entry as for a local one", Rule: 23,
		Why:  "a waiter sleeps until the entry's expiry although another process has released the lock",
		File: "internal/waitqueue/detach.go",
		Edits: swap(`		delete(d.view.own, g.ID)
`,
			``),
		Tests: "^TestWaitersPollAfterADetach$", Packages: inLocker,
	},
}
