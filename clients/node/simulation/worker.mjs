#!/usr/bin/env node
// A process of proptest/simulation, which runs beside Go's processes: callers that act at random. It prints what each
// caller was told, as proptest/history/history.go has it, and each message of the driver, as BSON. TestClients of
// proptest/proof starts, stops and kills it.
import { randomInt } from 'node:crypto'
import { connect, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { BSON, MongoClient } from 'mongodb'
import * as doclock from '../doclock.js'

const { presets, Locker } = doclock
const job = JSON.parse(process.env.DOCLOCK_CHILD.replace('simulation ', ''))
const number = job.Process * 100 // as simulation/server.go numbers a process's programs
const faults = { cancelled: 'context ended during a command', crashed: 'holder vanished without a release', replyLost: 'reply lost' }

// A clock as history.Clock: nanoseconds since 1970, at the start, and monotonic after that.
const start = BigInt(Date.now()) * 1_000_000n - process.hrtime.bigint()
const now = () => start + process.hrtime.bigint()

// A pipe's write returns when the reader has the line: it counts although the process is killed then.
const print = (prefix, line) => {
  const text = JSON.stringify(line, (_, value) => (typeof value === 'bigint' ? `int64 ${value}` : value))
  process.stdout.write(prefix + text.replace(/"int64 (-?\d+)"/g, '$1') + '\n')
}
const fault = (name) => print('', { fault: name })

// client connects, and has the driver's messages printed. Whoever reads them judges them: nothing that doclock.js says
// of its commands counts.
const client = (uri) => {
  const client = new MongoClient(uri, { monitorCommands: true, serverSelectionTimeoutMS: 5000 })
  const base64 = (body) => Buffer.from(BSON.serialize(body, { ignoreUndefined: false })).toString('base64')
  client.on('commandStarted', (e) => {
    if (e.databaseName !== job.Database) return
    print('message ', { request: e.requestId, name: e.commandName, at: now(), command: base64(e.command) })
  })
  client.on('commandSucceeded', (e) => {
    const at = now()
    print('message ', { request: e.requestId, name: e.commandName, at, reply: base64(e.reply) })
  })
  return client
}

// wire is the server's address behind a relay that loses replies, and the connection with them, now and then.
const wire = async (uri) => {
  const { hostname, port } = new URL(uri)
  const connections = new Set()
  const relay = createServer((inner) => {
    const outer = connect(port, hostname)
    const both = [inner, outer]
    connections.add(both)
    inner.pipe(outer).pipe(inner)
    for (const end of both) {
      end.setNoDelay()
      end.on('error', () => {})
      end.on('close', () => {
        connections.delete(both)
        both.forEach((end) => end.destroy())
      })
    }
  })
  await new Promise((listening) => relay.listen(0, '127.0.0.1', listening))
  setInterval(async () => {
    if (connections.size === 0) return
    const [inner, outer] = pick([...connections])
    outer.unpipe(inner)
    fault(faults.replyLost)
    await sleep(upTo(200))
    inner.destroy()
  }, 2000)
  const behind = new URL(uri)
  behind.host = `127.0.0.1:${relay.address().port}`
  return behind.href
}

const upTo = (ms) => randomInt(0, Math.max(1, Math.round(ms)))
const one = (n) => randomInt(0, n) === 0
const pick = (all) => all[randomInt(0, all.length)]

// told is a call as a history has it. A write is printed before, too: it may be the process's last.
let calls = 0
const told = (caller, kind, document, more) => {
  const operation = { process: number, client: caller, number: ++calls, kind, document: document.id, ...more, call: now() }
  if (operation.write) print('', { operation })
  return (outcome, more) => print('', { operation: { ...operation, return: now(), outcome, ...more } })
}

// outcome is what an error says of the lock. One that is none of the client's says that nothing was written.
const outcome = (err) => {
  const kinds = { ConflictError: 'conflict', LostError: 'lost', UnknownError: 'unknown', NotFoundError: 'not found' }
  return Object.entries(kinds).find(([name]) => err instanceof doclock[name])?.[1] ?? 'failed'
}

// look tells the validity as the holder sees it.
const look = ({ caller, document, lease, of }) => {
  const tell = told(caller, 'look', document, of)
  const remaining = BigInt(Math.floor(lease.remaining() * 1e6))
  if (remaining > 0n) tell('valid', { remaining })
  else if (!lease.valid()) tell('over')
}

// method calls one of a lease's methods, and returns what it has said.
const method = async (held, kind, f, more) => {
  const tell = told(held.caller, kind, held.document, { ...held.of, ...more })
  let said = 'done', error
  try {
    await f()
  } catch (err) {
    said = outcome(err)
    if (said === 'failed' && kind !== 'Update') said = 'unknown'
    error = String(err)
  }
  tell(said, { error })
  look(held)
  return said
}

// write adds one line to the document's log, by operators or by a pipeline, as simulation/leases.go does.
let writes = 0
const write = async (held) => {
  const mark = `w:${number}.${held.caller}.${++writes}`
  const line = `${held.lease.fence}/${mark}`
  const adds = one(2) ? { $push: { log: line } } : [{ $set: { log: { $concatArrays: ['$log', [line]] } } }]
  await method(held, 'Update', () => held.lease.update(adds), { write: mark })
}

// linger does nothing for a while, now and then past the lease's end.
const linger = async ({ document }) => {
  await sleep(one(5) ? document.ttl / 2 + upTo(document.ttl + document.tolerance) : upTo(50))
}

const use = async (held) => {
  look(held)
  for (let n = upTo(4); n > 0; n--) {
    const k = upTo(8)
    if (k < 3) await write(held)
    else if (k < 5) await method(held, 'Renew', () => held.lease.renew())
    else await linger(held)
    look(held)
  }
  if (one(15)) return fault(faults.crashed) // nobody releases it
  for (let n = 0; n < 5 && (await method(held, 'Release', () => held.lease.release())) === 'unknown'; n++) await sleep(upTo(50))
}

// acquire is one attempt, or waits; some callers leave meanwhile.
const acquire = async (caller, { document, locker }) => {
  const tag = pick(Object.keys(document.rules))
  const tries = one(2)
  const tell = told(caller, tries ? 'TryAcquire' : 'Acquire', document, { tag })
  const leaves = new AbortController()
  const timer = one(4) && setTimeout(() => leaves.abort(), upTo(300))
  try {
    const lease = tries
      ? await locker.tryAcquire(document.id, tag, { signal: leaves.signal })
      : await locker.acquire(document.id, tag, { maxWait: upTo(1200), signal: leaves.signal })
    const of = { tag, id: Buffer.from(lease.id.buffer).toString('hex'), fence: BigInt(lease.fence) }
    tell('granted', of)
    return { caller, document, lease, of }
  } catch (err) {
    if (leaves.signal.aborted) fault(faults.cancelled)
    tell(outcome(err), { error: String(err) })
  } finally {
    clearTimeout(timer)
  }
}

// rules are the client's own preset of a document: "1, Fair", "6, Semaphore(1)".
const rules = ({ name }) => {
  const [, initial, rest, n] = /^\d+, (\w)(\w+)(?:\((\d+)\))?$/.exec(name) ?? []
  const preset = initial && presets[initial.toLowerCase() + rest]
  return n ? preset?.(Number(n)) : preset
}

let locked
try {
  locked = client(job.Faults ? await wire(job.URI) : job.URI)
} catch { // its error has the URI in it
  process.stdout.write("failed the server's URI can't be used\n")
  process.exit(1)
}
const collection = locked.db(job.Database).collection('documents')
const documents = job.Locked.filter(rules).map((document) => {
  const { ttl, waitTTL, tolerance: clockTolerance } = document
  return { document, locker: new Locker(collection, { rules: rules(document), ttl, waitTTL, clockTolerance, owner: `node/${process.pid}` }) }
})
let begun = 0
await Promise.all(
  Array.from({ length: job.CallersPerProcess }, async (_, caller) => {
    while (begun++ < job.Share) {
      const held = await acquire(caller, one(3) ? documents[0] : pick(documents))
      if (held) await use(held)
      await sleep(upTo(20))
    }
  }),
)
await locked.close()
process.exit(0)
