package engine

import "slices"

// codes are ranges of server error codes, with both ends. docs/error-codes.md has their
// names. A command with a code that is in none of the four lists may have been executed,
// and may get the same answer for ever. Some errors come after the write (no image, or
// too large a reply). Some come from a router that doesn't know what the shard did. For
// most, no documentation promises anything. The projections of this package raise no
// errors: an expression that does is the update's or the filter's.
type codes [][2]int

// unread: the command is read, and its sender's rights are checked, before any document
// is looked for.
var unread = codes{
	{2, 2}, {9, 9}, {13, 13}, {14, 14}, {18, 18}, {20, 20}, {22, 22}, {26, 26}, {59, 59}, {72, 72},
	{73, 73}, {115, 115}, {123, 123}, {148, 148}, {166, 166}, {167, 167}, {168, 168}, {224, 224},
	{238, 238}, {263, 263}, {303, 303}, {322, 324}, {371, 371}, {391, 391}, {17276, 17276}, {15942, 15999},
	{16020, 16020}, {16410, 16412}, {16869, 16869}, {16872, 16872}, {16874, 16883}, {28667, 28667}, {31002, 31002},
	{31119, 31120}, {31249, 31256}, {31310, 31310}, {31319, 31325}, {40176, 40180}, {40229, 40231}, {40272, 40272},
	{40323, 40323}, {40352, 40353}, {40324, 40324}, {40413, 40415}, {51270, 51272}, {1257300, 1257300}, {4890500, 4890500},
}

// unrouted: a router, or a shard before it runs the command, finds no place for it.
var unrouted = codes{{61, 61}}

// uncomputed: the server computes and checks the new document inside the storage
// transaction. The error rolls it back.
var uncomputed = codes{
	{28, 28}, {34, 34}, {40, 40}, {52, 57}, {66, 66}, {116, 116}, {121, 121}, {171, 171}, {201, 201},
	{241, 241}, {283, 283}, {10003, 10003}, {11000, 11000}, {16837, 16837}, {17419, 17420}, {16006, 16007},
	{16034, 16035}, {16554, 16556}, {16608, 16612}, {16702, 16702}, {17040, 17049}, {17080, 17083},
	{17124, 17124}, {28646, 28651}, {28656, 28657}, {28664, 28664}, {28689, 28691}, {28724, 28729},
	{28756, 28766}, {34443, 34455}, {34460, 34473}, {40060, 40068}, {40075, 40081}, {40085, 40097}, {40228, 40228},
	{40386, 40400},
}

// interrupted: the server is shutting down, being elected or overloaded, or something
// interrupted this one command. It may have been executed, and the reason passes.
var interrupted = codes{
	{6, 6}, {7, 7}, {24, 24}, {46, 46}, {50, 50}, {64, 64}, {89, 89}, {90, 90}, {91, 91}, {112, 112},
	{133, 133}, {134, 134}, {189, 189}, {202, 202}, {262, 262}, {279, 279}, {281, 281}, {282, 282},
	{290, 290}, {317, 317}, {355, 355}, {365, 365}, {384, 384}, {402, 402}, {407, 407}, {433, 433},
	{449, 449}, {450, 450}, {453, 453}, {462, 462}, {9001, 9001}, {10058, 10058}, {10107, 10107},
	{11600, 11600}, {11601, 11601}, {11602, 11602}, {13435, 13435}, {13436, 13436}, {46841, 46841},
	{91331, 91331}, {10045600, 10045600},
}

// causes are the refusals whose reason has a name.
var causes = map[int]Cause{
	13: CauseUnauthorized, 18: CauseUnauthorized,
	115: CauseUnsupported, 123: CauseUnsupported, 148: CauseUnsupported, 168: CauseUnsupported, 238: CauseUnsupported, 303: CauseUnsupported, 17276: CauseUnsupported, 40324: CauseUnsupported,
	166: CauseView, 167: CauseView,
	61:    CauseShardKey,
	121:   CauseValidator,
	10003: CauseCapped,
}

func (c codes) has(code int) bool {
	return slices.ContainsFunc(c, func(r [2]int) bool { return r[0] <= code && code <= r[1] })
}

// refused says that nothing was executed and no repeat will be.
func refused(code int) bool { return unread.has(code) || unrouted.has(code) || uncomputed.has(code) }
