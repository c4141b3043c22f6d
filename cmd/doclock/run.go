package main

import (
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/spf13/cobra"
)

const runLong = `run acquires a lock, runs the command while it holds and renews it, and releases it when
the command ends. NAME is the document with that _id. In doclock.locks it is a lock of its
own, and made if it isn't there. In any other collection it must be there, so that a wrong
NAME leaves no document among yours; --create makes it there, too. FILTER is a document of
yours, which must be there.

If others hold the lock, run waits, for ever or for --wait; --wait 0 is one try. With -n
up to N may hold it at the same time, in turn; all users of the name must
give the same N. With --skip run takes any free document that matches the FILTER: the next
job of a queue. With --rules and --tag it locks as your programs do.

The command's environment has
  DOCLOCK_FENCE       the fencing token: it increases from grant to grant. Let the places that
                      the command writes to refuse a token smaller than one they have seen
  DOCLOCK_GUARD       a filter, in extended JSON, that matches the document only while this lock
                      is held: use it for updates of the document itself
  DOCLOCK_DOCUMENT    the document's _id, in extended JSON
  DOCLOCK_NAME        the same, if it is a string, without quotes
  DOCLOCK_COLLECTION  its DB.COLLECTION, which a doclock in the command takes as its default
  DOCLOCK_TAG         the lock's tag
  DOCLOCK_LEASE       the id of the entry in the document
and all that doclock's own has, so MONGODB_URI, too. With --uri-file the command doesn't
get the URI.

Exit codes:
  the command's own, or 128 + the number of the signal that ended it
  122  the lock was lost, could not be renewed in time, or was held for --at-most: others
       may have been let in
  123  the command ended, but nobody knows whether others were let in before
  124  not acquired: others hold it. The command was not run
  125  not acquired for another reason: arguments, server, no such document. It was not run
  126  the command can't be executed
  127  there is no such command. No lock was taken

What happens when
  the command ends          The lock is released at once, also if it failed. What it has left
                            running in the background runs on without the lock.
  the lock is lost          The command and what it has started get a TERM, and after --grace a
                            KILL. If renewals fail, the TERM comes --grace before the lease
                            ends, so that the KILL comes before anybody else is let in. If
                            somebody broke the lock, it comes when the next renewal finds out.
                            The exit code is 122.
  --at-most is over         The same, and the TERM comes --grace before it.
  the server is gone        The command runs on, and renewals are tried again, until --grace
                            before the end of the lease. If the server comes back before
                            that, nothing has happened.
  Ctrl-C, SIGTERM           The command gets the signal, and doclock waits for its end, so the
                            lock is held until the command is done. What is stopped is continued,
                            so that it can end. After a TERM doclock waits for the end of what the
                            command has started, too. While doclock waits for the lock, it gives
                            up, leaves no entry, and ends with 130 or 143.
  HUP, QUIT, USR1, USR2     The command gets them.
  kill -9 of doclock        On Linux the kernel kills the command, too. What it has started
                            goes on: so "exec" the last program of a script. The entry stays
                            until the TTL is over. On other systems the command goes on, and
                            after the TTL others are let in beside it.
  SIGSTOP of doclock        The command runs without renewals. If the lease has ended when
                            doclock goes on, the command is ended. A Ctrl-Z does nothing.
  the machine dies          The entry stays until the TTL is over.

The command has a process group of its own. TERM, INT, HUP, QUIT and KILL go to all of it;
a daemon, which has a session of its own, gets none. The command can't read from a terminal,
as in "timeout": its stdin is empty there.

A command of another user, as "sudo" makes one, gets no signal, and survives a kill -9 of
doclock: run doclock under sudo, not sudo under doclock. On Windows there are no such
signals, and a loss kills the command alone.

With --json, stderr has {"event", "message"} for each step: asking (no answer so far),
waiting, acquired, lost, releasing (no answer so far), released, or not released.

A process that was stopped may work for a moment after its lock was lost. No lock in
another process can prevent that; DOCLOCK_FENCE and DOCLOCK_GUARD can.`

const runExample = `  doclock run nightly -- ./backup.sh                               # one at a time
  doclock run nightly --wait 0 --hold-at-least 1h -- ./backup.sh   # in a crontab: once a night, on whichever machine
  doclock run sync --at-most 10m -- ./sync.sh                      # which may be stuck
  doclock run uploads -n 3 --wait 10m -- ./upload.sh               # three at a time
  doclock run -c shop.orders A-17 -- ./ship.sh                     # one of your documents
  doclock run -c shop.jobs '{"state": "new"}' --skip -- sh -c './work.sh "$DOCLOCK_DOCUMENT"'
  doclock run migrate --ttl 30s -v -- ./migrate.sh; case $? in 122|123) echo "look what it wrote";; esac`

// The exit codes of run beside the command's own. They are next to those that env,
// timeout and the shells use.
const (
	exitLost          = 122
	exitUnknown       = 123
	exitConflict      = 124
	exitNotRun        = 125
	exitNotExecutable = 126
	exitNoCommand     = 127
)

// held is how run holds its lock.
type held struct {
	wait         time.Duration // negative: for ever
	first        time.Duration // for the first answer
	ttl, grace   time.Duration
	least, most  time.Duration
	limited      bool // most was given
	n            string
	create, skip bool
	sort         string
	rules, tag   string
	owner        string
	verbose      bool
	graceIsGiven bool
}

func newRun(c *cli) *cobra.Command {
	h := held{first: engine.DefaultRetryLimit}
	cmd := &cobra.Command{
		Use: "run [flags] NAME|FILTER -- COMMAND [ARGUMENT…]", Short: "Hold a lock while a command runs",
		Long: runLong, Example: runExample, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("wait") {
				h.wait = -1
			} else if h.wait < 0 {
				return usage("--wait is %v; give 0 for one try, or more", h.wait)
			}
			h.graceIsGiven, h.limited = cmd.Flags().Changed("grace"), cmd.Flags().Changed("at-most")
			if cmd.Flags().Changed("timeout") {
				h.first = c.timeout
			}
			if dash := cmd.ArgsLenAtDash(); dash != 1 || len(args) < 2 {
				return usage("give one NAME or FILTER, then --, then the command, as in doclock run nightly -- ./backup.sh")
			}
			return c.run(args[0], args[1:], h)
		},
	}
	f := cmd.Flags()
	f.DurationVarP(&h.wait, "wait", "w", 0, "wait this `DURATION` for the lock; 0 is one try (default: for ever)")
	f.DurationVar(&h.ttl, "ttl", engine.DefaultTTL, "others wait this `DURATION` after a kill -9")
	f.DurationVar(&h.grace, "grace", 0, "the `DURATION` from TERM to KILL at a loss (default: a fifth of the TTL, or of --at-most)")
	f.DurationVar(&h.least, "hold-at-least", 0, "keep others out for this `DURATION` at least, from the grant on")
	f.DurationVar(&h.most, "at-most", 0, "end lock and command this `DURATION` after the grant (default: never)")
	f.StringVarP(&h.n, "holders", "n", "", "up to this `NUMBER` of holders at a time (default: one)")
	f.BoolVar(&h.create, "create", false, "make the document of the NAME, in any collection")
	f.BoolVar(&h.skip, "skip", false, "take any free document of the FILTER")
	f.StringVar(&h.sort, "sort", "", "which document comes first: `KEYS` in extended JSON")
	rulesFlag(cmd, &h.rules)
	f.StringVar(&h.tag, "tag", "", "the `TAG`, with --rules")
	f.StringVar(&h.owner, "owner", "", "the `OWNER` that others see (default: host/pid/command)")
	f.BoolVarP(&h.verbose, "verbose", "v", false, "say on stderr what happens to the lock")
	cmd.MarkFlagsRequiredTogether("rules", "tag")
	cmd.MarkFlagsMutuallyExclusive("holders", "rules")
	cmd.MarkFlagsMutuallyExclusive("holders", "skip")
	return cmd
}
