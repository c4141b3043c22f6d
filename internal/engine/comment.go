package engine

import "go.mongodb.org/mongo-driver/v2/bson"

// The comments of commands, by which whoever runs the database recognises them in
// its log, its profiler and its list of operations. A caller's own comment on an
// update takes their place.
var (
	forAcquire   = comment("acquire")
	forConfirm   = comment("confirm")
	forRenew     = comment("renew")
	forUpdate    = comment("update")
	forRelease   = comment("release")
	forHandoff   = comment("handoff")
	forDelete    = comment("delete")
	forDetach    = comment("detach")
	forResume    = comment("resume")
	forTouch     = comment("touch")
	forDowngrade = comment("downgrade")
	forClaim     = comment("claim")
	forCleanUp   = comment("clean-up")
	forProof     = comment("proof") // of a negative answer, or of what an attempt has done
	forAdmin     = comment("admin")
)

func comment(command string) bson.RawValue { return value("doclock " + command) }
