// The vectors of docs/vectors, all by way of the client's own calls: a relay makes the client believe that the case's
// past has happened, stores the document `before`, and passes on the one command that the case is about.
// It skips what this client does not have: HoldAtLeast, a write that also releases, and a release to a remainder.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { Long, UUID } from 'mongodb'
import { ConflictError, FormatError, LostError, NotFoundError, presets } from '../doclock.js'
import { documents, jump, locker, make, relayed, silence } from './server.js'

const load = (name) => JSON.parse(readFileSync(new URL(`../../../docs/vectors/${name}`, import.meta.url), 'utf8'))
const rulesOf = (name) => {
  const [, first, rest, n] = /^(\w)(\w+)(?:\((\d+)\))?$/.exec(name)
  const preset = presets[first.toLowerCase() + rest]
  return n ? preset(Number(n)) : preset
}
const isObject = (v) => typeof v === 'object' && v !== null && !Array.isArray(v)
// idOf finds the own id in a command.
const idOf = (v) => {
  if (v?._bsontype === 'Binary') return new UUID(v.buffer)
  if (typeof v !== 'object' || v === null || v._bsontype) return undefined
  for (const inner of Object.values(v)) {
    const id = idOf(inner)
    if (id) return id
  }
}

// ---- commands.json

// marked writes a command's values as marks, as commands.json has them.
const marked = (v, id) => {
  if (v?._bsontype === 'Binary') return v.toString('hex') === id.toString('hex') ? '<id>' : v
  if (v?._bsontype === 'Int32' || v?._bsontype === 'Long' || v?._bsontype === 'Double') v = Number(v)
  if (v === 'the owner') return '<owner>'
  if (v === 61_234) return '<held ms>'
  if (v === 21_234) return '<waiting ms>'
  if (Array.isArray(v)) return v.map((e) => marked(e, id))
  return isObject(v) ? Object.fromEntries(Object.entries(v).map(([k, e]) => [k, marked(e, id)])) : v
}
for (const { rules, tag, command, update } of load('commands.json')) {
  test(`commands.json: ${rules}, ${tag}, ${command}`, async () => {
    let id, sent
    const collection = relayed(async (message, send) => {
      if (!message.comment) return send()
      id ??= idOf(message.update)
      if (command === 'confirm' && message.comment === 'doclock acquire') {
        return { value: { _id: 1, lock: { tags: { [tag]: [{ id, seq: 8 }] } }, __doclockNow: new Date() } }
      }
      sent ??= message
      return { value: { _id: 1, lock: { tags: { [tag]: [{ id, seq: 8, fence: 8 }] } }, __doclockNow: new Date() } }
    })
    const client = locker(rulesOf(rules), { owner: 'the owner', ttl: 61_000, waitTTL: 21_000, clockTolerance: 234 }, collection)
    await (command === 'try' ? client.tryAcquire(1, tag) : client.acquire(1, tag))
    assert.deepEqual(marked(sent.update, id), update)
  })
}

// ---- cases.json

const { cases, ...common } = load('cases.json')
const own = common.id.$id

// stored is a case's document with the values of `from`.
const uuid = (name, me) => (name === own ? me : new UUID(Buffer.from(name.padEnd(16, '.'), 'ascii')))
const stored = (v, me, from) => {
  if (typeof v === 'number') return Long.fromNumber(v)
  if (Array.isArray(v)) return v.map((e) => stored(e, me, from))
  if (!isObject(v)) return v
  if ('$now' in v) return new Date(from + v.$now)
  if ('$fence' in v) return Long.fromNumber(from + v.$fence)
  if ('$id' in v) return uuid(v.$id, me)
  return Object.fromEntries(Object.entries(v).map(([k, e]) => [k, stored(e, me, from)]))
}
// compare compares a document with a case's `after`.
const compare = (got, want, me, from, to, path = 'the document') => {
  if (isObject(want) && '$now' in want) {
    assert.ok(got instanceof Date && got - want.$now >= from && got - want.$now <= to, `${path} is ${got}`)
  } else if (isObject(want) && want.$fence === 'now') {
    assert.ok(got?._bsontype === 'Long' && Number(got) >= from && Number(got) <= to, `${path} is ${got}`)
  } else if (isObject(want) && '$fence' in want) assert.equal(String(got), String(from + want.$fence), path)
  else if (isObject(want) && '$id' in want) assert.equal(got.toString('hex'), uuid(want.$id, me).toString('hex'), path)
  else if (typeof want === 'number') assert.ok(['Long', 'Int32', 'Double'].includes(got?._bsontype) && Number(got) === want, `${path} is ${got}`)
  else if (Array.isArray(want)) {
    assert.equal(got?.length, want.length, `the length of ${path}`)
    want.forEach((e, i) => compare(got[i], e, me, from, to, `${path}.${i}`))
  } else if (isObject(want)) {
    assert.ok(isObject(got), `${path} is ${got}`)
    assert.deepEqual(Object.keys(got).sort(), Object.keys(want).sort(), `the fields of ${path}`)
    for (const [k, e] of Object.entries(want)) compare(got[k], e, me, from, to, `${path}.${k}`)
  } else assert.deepEqual(got, want, path)
}
const serverTime = async () => {
  const now = await documents.findOneAndUpdate({ _id: 'now' }, [{ $set: { now: '$$NOW' } }], { upsert: true, returnDocument: 'after' })
  return Number(now.now)
}

const skip = (c) => {
  if (c.least) return 'this client has no HoldAtLeast'
  if (c.command === 'write and release') return 'this client has no write that also releases'
  if (c.command === 'release' && JSON.stringify(c.before).includes('"until"')) return 'this client has no remainders'
  return false
}
const names = { acquire: 'doclock acquire', try: 'doclock acquire', confirm: 'doclock confirm', renew: 'doclock renew', write: 'doclock update', release: 'doclock release', 'clean up': 'doclock clean-up' }

for (const c of cases) {
  test(`cases.json: ${c.command}: ${c.name} (${c.rules}, ${c.tag})`, { skip: skip(c) }, async () => {
    const _id = await make()
    const leaves = new AbortController()
    let me, asking, from, to, after, before, found, k = 0
    // asked is the case's command. It is the only one that reaches the server; what comes after it gets no answer.
    const asked = async (send) => {
      from = await serverTime()
      await documents.deleteOne({ _id })
      before = c.before && { _id, ...stored(c.before, me, from) }
      if (before) await documents.insertOne(before)
      const reply = await send()
      to = await serverTime()
      after = await documents.findOne({ _id }, { promoteValues: false })
      found = reply.value !== null
      return reply
    }
    const answer = (entry) => ({ value: { _id, lock: { tags: { [c.tag]: [entry] } }, __doclockNow: new Date() } })
    const next = []
    const relay = async (message, send) => {
      const name = message.comment
      if (!name) return send()
      me ??= idOf(message.update)
      if (to !== undefined) { // the case is over: what the client does next tells what it has understood
        next.push(name)
        leaves.abort(new Error('the case is over'))
        return name === 'doclock clean-up' ? { value: { _id } } : silence()
      }
      if (name === names[c.command] && (c.command !== 'write' || ++k === c.k)) return asking = asked(send)
      if (name === 'doclock update') return { value: { _id } }
      assert.equal(name, 'doclock acquire')
      return answer({ id: me, seq: Long.fromNumber(8), ...(c.fence && { fence: Long.fromNumber(c.fence) }) })
    }
    const options = { ttl: common.ttl, waitTTL: common['waiting ttl'], clockTolerance: common.tolerance, owner: common.owner }
    const client = locker(rulesOf(c.rules), options, relayed(relay))

    const run = async () => {
      if (c.command === 'try') return await client.tryAcquire(_id, c.tag, { signal: leaves.signal })
      if (c.command === 'acquire' || c.command === 'confirm') return await client.acquire(_id, c.tag, { signal: leaves.signal })
      if (c.command === 'clean up') return await client.acquire(_id, c.tag, { maxWait: 0 })
      const lease = await client.tryAcquire(_id, c.tag)
      if (c.command !== 'write') return await lease[c.command]()
      for (let k = 1; k <= c.k; k++) await lease.update(k === c.k ? c.update : { $set: { a: 0 } })
    }
    const err = await run().then((lease) => lease ?? 'done', (err) => err)
    await asking // a clean-up waits for a second only
    const outcome = () => {
      if (c.command === 'clean up') return err instanceof ConflictError && (found ? 'released' : 'lost')
      if (err === 'done') return { renew: 'renewed', write: 'applied', release: 'released' }[c.command]
      if (err instanceof FormatError) return 'foreign'
      if (err instanceof NotFoundError) return 'not found'
      if (err instanceof LostError) return 'lost'
      if (err instanceof ConflictError) return 'refused'
      if (!(err instanceof Error)) return 'granted'
      if (c.command === 'confirm' && next[0] === 'doclock acquire') return 'lost' // it arrives anew
      return { 'doclock confirm': 'waiting', 'doclock acquire': 'refused' }[next[0]] ?? err
    }
    assert.equal(outcome(), c.outcome)
    if (c.after === null) return assert.equal(after, null)
    const { _id: _, ...rest } = after
    compare(rest, c.after === 'same' ? c.before : c.after, me, from, c.after === 'same' ? from : to)
  })
}

// ---- verdicts.json

for (const c of load('verdicts.json')) {
  const skipped = c.command === 'write and release' && 'this client has no write that also releases'
  test(`verdicts.json: ${c.command}: ${c.name}`, { skip: skipped }, async (t) => {
    let me, attempts = 0
    const named = (v, key) => {
      if (typeof v === 'string') return key === 'id' ? uuid(v, me) : v
      if (Array.isArray(v)) return v.map((e) => named(e))
      return isObject(v) ? Object.fromEntries(Object.entries(v).map(([k, e]) => [k, named(e, k)])) : v
    }
    const collection = relayed((message, send, name) => {
      if (name === 'hello') return { ok: 1 }
      if (name === 'find') return { cursor: { firstBatch: c.read === null ? [] : [{ _id: 1, lock: named(c.read), __doclockNow: new Date() }] } }
      if (message.comment !== 'doclock acquire') return ++attempts === 1 ? silence() : { value: null }
      me = idOf(message.update)
      return { value: { _id: 1, lock: { tags: { read: [{ id: me, seq: 7, fence: 7 }] } }, __doclockNow: new Date() } }
    })
    const lease = await locker(presets.readPreferring, {}, collection).tryAcquire(1, 'read')
    if (c.valid === false) jump(t, 61_000)
    const call = c.command === 'release' ? lease.release() : lease.update({ $set: { a: 1 } })
    const verdict = await call.then(
      () => (c.command === 'release' ? 'released' : 'applied'),
      (err) => ({ LostError: 'lost', UnknownError: 'unknown' })[err.name] ?? err)
    assert.equal(verdict, c.verdict)
    assert.equal(attempts, 2)
  })
}
