//go:build unix

package mongotest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// documentDB is PostgreSQL with the DocumentDB extension behind FerretDB. Both
// run in the Debian root of the cache, as the root's user postgres. They use a
// socket that only this user can reach. Only FerretDB listens on the network,
// and only on the loopback address.
type documentDB struct {
	crew
	root debianRoot
	port int
	run  *run
}

const (
	// runsIn and templateIn are directories in the Debian root.
	runsIn     = "/srv/runs"
	templateIn = "/srv/template"

	postgresBin = "/usr/lib/postgresql/18/bin/"
	ferretBin   = "/usr/local/bin/ferretdb"
)

// settings are PostgreSQL's settings for DocumentDB and for a test server.
//
//   - Commits are durable (fsync and synchronous_commit stay on). On the machine where this was written that costs 0.25
//     of the 0.73 ms of a findOneAndUpdate. Figures without it would be too good.
//   - Shared memory is a file in the data directory, because /dev/shm may be missing in the root, and so no mount is
//     needed. Parallel queries, which would use it, are off.
//   - Connections suffice for FerretDB's pool (poolSize) and for the extension's own.
//   - A lock is a small document that is updated all the time: autovacuum comes by more often than once a minute.
//   - The log has only errors, and not the extension's work every two seconds.
var settings = []string{
	"shared_preload_libraries=pg_cron,pg_documentdb_core,pg_documentdb",
	"cron.database_name=postgres",
	"cron.use_background_workers=on",
	"cron.log_run=off",
	"cron.log_statement=off",
	"listen_addresses=",
	"unix_socket_permissions=0700",
	"max_connections=300",
	"max_worker_processes=16",
	"dynamic_shared_memory_type=mmap",
	"max_parallel_workers_per_gather=0",
	"max_parallel_maintenance_workers=0",
	"shared_buffers=128MB",
	"max_wal_size=512MB",
	"wal_level=minimal",
	"max_wal_senders=0",
	"autovacuum_naptime=10s",
	"log_checkpoints=off",
	"jit=off",
}

// postgresArgs are the arguments that give PostgreSQL these settings, and more.
func postgresArgs(more ...string) []string {
	var args []string
	for _, setting := range append(slices.Clone(settings), more...) {
		args = append(args, "-c", setting)
	}
	return args
}

// poolSize is the number of FerretDB's connections to PostgreSQL, and so of
// simultaneous commands; further ones wait.
const poolSize = 200

func startDocumentDB(ctx context.Context, c cache) (server, error) {
	root, err := openDebianRoot(c)
	if err != nil {
		return nil, err
	}
	// Another program may take the port before FerretDB: then another port is
	// tried.
	for attempt := 1; ; attempt++ {
		d, err := newDocumentDB(ctx, root)
		if err == nil {
			return d, nil
		}
		if attempt == 3 || !strings.Contains(err.Error(), "address already in use") {
			return nil, err
		}
	}
}

func newDocumentDB(ctx context.Context, root debianRoot) (*documentDB, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	run, err := newRun(root.path(runsIn))
	if err != nil {
		return nil, err
	}
	d := &documentDB{root: root, port: port, run: run}
	if err := errors.Join(os.Chown(run.dir, root.uid, root.gid), d.copyTemplate(ctx)); err != nil {
		return nil, errors.Join(err, d.remove())
	}
	if err := d.launch(ctx); err != nil {
		return nil, errors.Join(err, d.remove())
	}
	return d, nil
}

// copyTemplate makes the data directory from a template that has the extension
// already.
func (d *documentDB) copyTemplate(ctx context.Context) error {
	cp := d.root.command(ctx, "/bin/cp", "-a", "--reflink=auto", templateIn, d.inside("data"))
	if said, err := cp.CombinedOutput(); err != nil {
		return fmt.Errorf("copying the database template: %w\n%s", err, said)
	}
	return nil
}

func (d *documentDB) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	d.crew = nil

	// The processes live longer than ctx.
	forever := context.WithoutCancel(ctx)
	postgres, err := d.startPostgres(forever)
	if err != nil {
		return err
	}
	d.crew = append(d.crew, postgres)
	if err := postgres.says(ctx, "database system is ready to accept connections"); err != nil {
		return fmt.Errorf("PostgreSQL: %w", err)
	}

	ferret, err := startProcess(d.root.command(forever, ferretBin,
		fmt.Sprintf("--postgresql-url=postgres://postgres@/postgres?host=%s&pool_max_conns=%d", d.inside(""), poolSize),
		fmt.Sprintf("--listen-addr=127.0.0.1:%d", d.port), "--debug-addr=-",
		"--log-level=warn", // otherwise it logs every command
		"--no-auth", "--telemetry=disable", "--state-dir="+d.inside(""),
	), d.run.path("ferretdb.log"))
	if err != nil {
		return err
	}
	d.crew = append(d.crew, ferret)
	// FerretDB must have got the port, and not another server.
	if err := ferret.wait(ctx, func() bool { return listens(ferret.child.Pid, d.port) }); err != nil {
		return fmt.Errorf("FerretDB: %w", err)
	}
	if _, err := probe(ctx, d.uri(), 30*time.Second); err != nil {
		return fmt.Errorf("%w\n%s\n%s", err, tail(postgres.log), tail(ferret.log))
	}
	return nil
}

// startPostgres starts PostgreSQL in namespaces of its own, if that is allowed.
// Then all its processes end, and its shared memory is freed, with its first
// process, even if that is killed. A container may not allow it. Then
// PostgreSQL's processes end because they notice the end of the first one, and
// a few bytes of shared memory stay.
func (d *documentDB) startPostgres(ctx context.Context) (*process, error) {
	start := func(isolated bool) (*process, error) {
		socket := d.inside("")
		cmd := d.root.command(ctx, postgresBin+"postgres", append([]string{"-D", d.inside("data")}, postgresArgs(
			"unix_socket_directories="+socket, "documentdb.localhost_connection_string=host="+socket)...)...)
		if isolated {
			isolate(cmd)
		}
		return startProcess(cmd, d.run.path("postgres.log"))
	}
	p, err := start(true)
	if errors.Is(err, syscall.EPERM) {
		return start(false)
	}
	return p, err
}

// inside is the path, in the Debian root, of a file in the run's directory.
func (d *documentDB) inside(name string) string {
	return filepath.Join(runsIn, filepath.Base(d.run.dir), name)
}

func (d *documentDB) uri() string    { return fmt.Sprintf("mongodb://127.0.0.1:%d/", d.port) }
func (d *documentDB) origin() string { return "DocumentDB on PostgreSQL 18 in " + d.root.dir }
func (d *documentDB) remove() error  { return errors.Join(d.kill(), d.run.remove()) }
