package engine

import "slices"

// refusal is a range of server error codes, with both ends. Each of them proves
// that the command was not executed and will not be.
type refusal struct {
	from, to int
	name     string
	why      proof
	cause    Cause
}

// proof is the reason why nothing was executed: the step at which the server
// refuses the command.
type proof string

const (
	// The command is read, and its sender's rights are checked, before any
	// document is looked for.
	unread proof = "the command is not accepted"

	// A router, or a shard before it runs the command, finds no place for the
	// command.
	unrouted proof = "the command is not routed"

	// The server computes and checks the new document inside the storage
	// transaction. The error rolls it back.
	uncomputed proof = "the new document is not stored"
)

// refusals are the error codes that prove a refusal, see docs/error-codes.md. A
// command with any other error may have been executed. Some errors come after
// the write (no image, or too large a reply). Some come from a router that
// doesn't know what the shard did. For most, no documentation promises
// anything. The projections of this package raise no errors, see layout.go: an
// expression that does is the update's or the filter's.
var refusals = []refusal{
	{2, 2, "BadValue", unread, CauseOther},
	{9, 9, "FailedToParse", unread, CauseOther},
	{13, 13, "Unauthorized", unread, CauseOther},
	{14, 14, "TypeMismatch", unread, CauseOther},
	{18, 18, "AuthenticationFailed", unread, CauseOther},
	{20, 20, "IllegalOperation", unread, CauseOther},
	{22, 22, "InvalidBSON", unread, CauseOther},
	{26, 26, "NamespaceNotFound", unread, CauseOther},
	{59, 59, "CommandNotFound", unread, CauseOther},
	{72, 72, "InvalidOptions", unread, CauseOther},
	{73, 73, "InvalidNamespace", unread, CauseOther},
	{115, 115, "CommandNotSupported", unread, CauseUnsupported},
	{148, 148, "ReadConcernMajorityNotEnabled", unread, CauseUnsupported},
	{166, 166, "CommandNotSupportedOnView", unread, CauseView},
	{167, 167, "OptionNotSupportedOnView", unread, CauseView},
	{168, 168, "InvalidPipelineOperator", unread, CauseUnsupported},
	{224, 224, "QueryFeatureNotAllowed", unread, CauseOther},
	{238, 238, "NotImplemented", unread, CauseUnsupported},
	{263, 263, "OperationNotSupportedInTransaction", unread, CauseOther},
	{303, 303, "feature not supported (Amazon DocumentDB)", unread, CauseUnsupported},
	{322, 324, "APIVersionError, APIStrictError, APIDeprecationError", unread, CauseOther},
	{371, 371, "UserWritesBlocked", unread, CauseOther},
	{391, 391, "ReauthenticationRequired", unread, CauseOther},
	{17276, 17276, "undefined variable", unread, CauseUnsupported},
	{15942, 15999, "a malformed expression or path", unread, CauseOther},
	{16020, 16020, "a wrong number of operands", unread, CauseOther},
	{16410, 16412, "a malformed path", unread, CauseOther},
	{16874, 16883, "malformed $let or $map", unread, CauseOther},
	{31249, 31256, "a malformed projection", unread, CauseOther},
	{31319, 31325, "an unknown expression", unread, CauseOther},
	{40272, 40272, "a malformed $set stage", unread, CauseOther},
	{40323, 40323, "a malformed pipeline stage", unread, CauseOther},
	{40352, 40353, "a malformed path", unread, CauseOther},
	{40324, 40324, "unknown pipeline stage", unread, CauseUnsupported},
	{40413, 40415, "IDLDuplicateField, IDLFailedToParse, IDLUnknownField", unread, CauseOther},
	{50768, 50768, "NotARetryableWriteCommand", unread, CauseOther},

	{61, 61, "ShardKeyNotFound", unrouted, CauseShardKey},

	{28, 28, "PathNotViable", uncomputed, CauseOther},
	{34, 34, "CannotBackfillArray", uncomputed, CauseOther},
	{40, 40, "ConflictingUpdateOperators", uncomputed, CauseOther},
	{52, 57, "DollarPrefixedFieldName, InvalidIdField, NotSingleValueField, InvalidDBRef, EmptyFieldName, DottedFieldName", uncomputed, CauseOther},
	{66, 66, "ImmutableField", uncomputed, CauseOther},
	{116, 116, "DocTooLargeForCapped", uncomputed, CauseOther},
	{121, 121, "DocumentValidationFailure", uncomputed, CauseValidator},
	{171, 171, "CannotIndexParallelArrays", uncomputed, CauseOther},
	{201, 201, "CannotBuildIndexKeys", uncomputed, CauseOther},
	{241, 241, "ConversionFailure", uncomputed, CauseOther},
	{283, 283, "WouldChangeOwningShard", uncomputed, CauseOther},
	{10003, 10003, "CannotGrowDocumentInCappedNamespace", uncomputed, CauseCapped},
	{11000, 11000, "DuplicateKey", uncomputed, CauseOther},
	{16837, 16837, "the update can't be applied to the document", uncomputed, CauseOther},
	{17419, 17420, "the new document is larger than 16 MB", uncomputed, CauseOther},

	{16006, 16007, "an operand that can't be coerced", uncomputed, CauseOther},
	{16034, 16035, "$substr", uncomputed, CauseOther},
	{16554, 16556, "$add, $multiply, $subtract", uncomputed, CauseOther},
	{16608, 16612, "$divide, $mod, $add", uncomputed, CauseOther},
	{16702, 16702, "$concat", uncomputed, CauseOther},
	{17040, 17049, "expressions on sets", uncomputed, CauseOther},
	{17080, 17083, "$cond", uncomputed, CauseOther},
	{17124, 17124, "$size", uncomputed, CauseOther},
	{28646, 28651, "$filter", uncomputed, CauseOther},
	{28656, 28657, "$substrBytes", uncomputed, CauseOther},
	{28664, 28664, "$concatArrays", uncomputed, CauseOther},
	{28689, 28691, "$arrayElemAt", uncomputed, CauseOther},
	{28724, 28729, "$slice", uncomputed, CauseOther},
	{28756, 28766, "$log, $pow, $ln and other arithmetic", uncomputed, CauseOther},
	{34443, 34455, "$range and $substrCP", uncomputed, CauseOther},
	{34460, 34473, "$zip and lengths of strings", uncomputed, CauseOther},
	{40060, 40068, "$switch", uncomputed, CauseOther},
	{40075, 40081, "$reduce, $in", uncomputed, CauseOther},
	{40085, 40097, "$split, $indexOfArray and its kin", uncomputed, CauseOther},
	{40386, 40400, "$arrayToObject, $objectToArray, $mergeObjects", uncomputed, CauseOther},
}

// passing are errors of commands that may have been executed. They pass by
// themselves: the server is shutting down, being elected or overloaded, or
// something interrupted this one command. The command is repeated for as long
// as the caller waits.
var passing = []int{
	6, 7, 24, 46, 50, 64, 89, 90, 91, 112, 133, 134, 189, 202, 262, 279, 281, 282, 290, 317, 355, 365, 384,
	402, 407, 433, 449, 450, 453, 462, 9001, 10107, 11600, 11601, 11602, 13435, 13436, 46841, 91331, 10045600,
}

func passes(code int) bool { return slices.Contains(passing, code) }

// refused returns the refusal that covers the code, or nil.
func refused(code int) *refusal {
	i := slices.IndexFunc(refusals, func(r refusal) bool { return r.from <= code && code <= r.to })
	if i < 0 {
		return nil
	}
	return &refusals[i]
}
