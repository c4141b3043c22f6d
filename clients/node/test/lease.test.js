import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Long, UUID } from 'mongodb'
import { ConflictError, FormatError, Locker, LostError, NotFoundError, presets } from '../doclock.js'
import { counted, documents, entries, expire, get, jump, locker, make, relayed } from './server.js'

const fair = locker(presets.fair)

test('a grant', async () => {
  const id = await make({ x: 1 })
  const lease = await locker(presets.fair, { ttl: 9000, clockTolerance: 250 }).tryAcquire(id, 'write')
  const { lock } = await documents.findOne({ _id: id }, { promoteValues: false })
  const [entry] = lock.tags.write
  assert.ok(lease.id instanceof UUID && lease.id.equals(entry.id))
  assert.equal(lease.fence, Number(entry.fence))
  assert.deepEqual(Object.keys(entry), ['id', 'owner', 'seq', 'fence', 'since', 'expires'])
  for (const value of [entry.seq, entry.fence, lock.fence]) assert.equal(value._bsontype, 'Long')
  assert.equal(entry.expires - entry.since, 9250)
  assert.ok(lease.valid() && lease.remaining() > 8000 && lease.remaining() <= 8999)
})

test('the _id may have any type', async () => {
  for (const _id of ['a', new UUID(), { a: 1, b: { c: 'd' } }, Long.fromString('9007199254740993'), 1.5, new Date(5)]) {
    await documents.insertOne({ _id })
    const lease = await fair.acquire(_id, 'write')
    await lease.renew()
    await lease.release()
  }
})

test('an owner and a tag are taken as they are', async () => {
  const id = await make()
  const rules = JSON.parse('{"__proto__": {"cooperative": ["__proto__", "7"]}, "7": {"assertive": ["7"]}}')
  const lease = await locker(rules, { owner: '$<id> <tag>…>' }).acquire(id, '__proto__')
  await lease.renew()
  await lease.update({ $set: { x: 1 } })
  await assert.rejects(locker(rules).tryAcquire(id, '__proto__'), (err) => err.entries[0].owner === '$<id> <tag>…>')
  await lease.release()
  const held = await locker(rules).acquire(id, '7')
  const next = locker(rules).acquire(id, '7')
  await held.release()
  await (await next).release()
})

test('release', async () => {
  const id = await make()
  const { collection, sent } = counted()
  const lease = await locker(presets.fair, {}, collection).tryAcquire(id, 'write')
  await lease.release()
  assert.equal(lease.valid(), false)
  assert.equal(lease.remaining(), 0)
  assert.deepEqual(await entries(id, 'write'), [])
  const before = sent.length
  await lease.release()
  await assert.rejects(lease.renew(), LostError)
  await assert.rejects(lease.update({ $set: { x: 1 } }), LostError)
  assert.equal(sent.length, before, 'nothing is sent for a lease that has ended')
  assert.ok((await fair.tryAcquire(id, 'write')).fence > lease.fence)
})

test('renew', async (t) => {
  const id = await make()
  const lease = await fair.tryAcquire(id, 'write')
  await documents.updateOne({ _id: id }, { $set: { 'lock.tags.write.0.expires': new Date(Date.now() + 5000) } })
  jump(t, 30_000)
  assert.ok(lease.remaining() < 30_000)
  await lease.renew()
  assert.ok(lease.remaining() > 50_000)
  assert.ok((await entries(id, 'write'))[0].expires > new Date(Date.now() - 30_000 + 50_000))
})

test('an entry that has expired still counts while it is there', async (t) => {
  const id = await make()
  const lease = await fair.tryAcquire(id, 'write')
  await expire(id, 'write')
  jump(t, 61_000)
  assert.equal(lease.valid(), false)
  await lease.update({ $set: { x: 1 } })
  assert.equal(lease.valid(), false, 'a write does not extend the lease')
  await assert.rejects(lease.renew(), LostError)
  assert.equal(lease.valid(), false)
  assert.equal((await get(id)).x, 1)
  await lease.release()
})

test('a lease is lost once another was granted after its end', async () => {
  for (const first of ['renew', 'update', 'release']) {
    const id = await make()
    const { collection, sent } = counted()
    const lease = await locker(presets.fair, {}, collection).tryAcquire(id, 'write')
    await expire(id, 'write')
    const other = await fair.tryAcquire(id, 'write')
    const call = (name) => lease[name](...(name === 'update' ? [{ $set: { x: 1 } }] : []))
    await assert.rejects(call(first), LostError)
    assert.equal(lease.valid(), false)
    const before = sent.length
    for (const name of ['renew', 'update', 'release']) await assert.rejects(call(name), LostError)
    assert.equal(sent.length, before)
    assert.equal((await get(id)).x, undefined)
    await other.renew()
  }
})

test('the validity ends by whichever clock is ahead', async (t) => {
  await t.test('a suspended machine', async (t) => {
    const lease = await fair.tryAcquire(await make(), 'write')
    jump(t, 61_000, { mono: false })
    assert.equal(lease.valid(), false)
  })
  await t.test('a wall clock that was set back', async (t) => {
    const lease = await fair.tryAcquire(await make(), 'write')
    jump(t, 61_000, { wall: false })
    jump(t, -1e9, { mono: false })
    assert.equal(lease.valid(), false)
  })
})

test('a lease whose time was up is not valid again', async (t) => {
  const lease = await fair.tryAcquire(await make(), 'write')
  await t.test('once seen', (t) => {
    jump(t, 61_000)
    assert.equal(lease.valid(), false)
  })
  assert.equal(lease.valid(), false)
  const wire = relayed((command, send) => {
    if (command.comment === 'doclock renew') jump(t, 31_000) // the answer comes after the end
    return send()
  })
  const late = await locker(presets.fair, {}, wire).tryAcquire(await make(), 'write')
  jump(t, 30_000)
  await assert.rejects(late.renew(), LostError)
  assert.equal(late.valid(), false)
  await late.release()
})

test('no renewal is sent after the end', async () => {
  const left = []
  const wire = relayed((command, send) => {
    if (command.comment !== 'doclock renew') return send()
    left.push(lease.remaining())
    return Promise.reject(new Error('the test lost this'))
  })
  const lease = await locker(presets.fair, { ttl: 1000 }, wire).tryAcquire(await make(), 'write')
  await assert.rejects(lease.renew(), LostError)
  assert.ok(left.length > 3 && left.every((ms) => ms > 0), `a renewal was sent with ${left} ms left`)
})

test('guarded writes', async () => {
  const id = await make({ list: [1, 5, 9] })
  const lease = await fair.tryAcquire(id, 'write')
  await lease.update({ $set: { a: 1 }, $max: { b: 7 } })
  await lease.update([{ $set: { c: { $add: ['$a', '$b'] } } }, { $unset: 'a' }])
  await lease.update({ $set: { 'list.$[big]': 0 } }, { arrayFilters: [{ big: { $gt: 4 } }] })
  await Promise.all([1, 2, 3].map((i) => lease.update({ $push: { log: i } })))
  const { lock, ...rest } = await documents.findOne({ _id: id }, { promoteValues: false })
  assert.deepEqual(JSON.parse(JSON.stringify(rest)), { _id: id, list: [1, 0, 0], b: 7, c: 8, log: [1, 2, 3] })
  assert.equal(lock.tags.write[0].n._bsontype, 'Long')
  assert.equal(Number(lock.tags.write[0].n), 6)
})

test('an update that the server refuses is not applied, and the lease goes on', async () => {
  const id = await make({ x: 'text' })
  const lease = await fair.tryAcquire(id, 'write')
  await assert.rejects(lease.update({ $inc: { x: 1 } }), (err) => err.code === 14)
  await lease.update({ $set: { x: 1 } })
  await lease.update({ $inc: { x: 1 } })
  assert.equal((await get(id)).x, 2)
})

test('an update that must not be sent', async () => {
  const id = await make()
  const { collection, sent } = counted()
  const lease = await locker(presets.fair, {}, collection).tryAcquire(id, 'write')
  const before = sent.length
  const loop = {}
  loop.loop = loop
  for (const update of [
    undefined, null, 'x', {}, [], { x: 1 }, { $set: 1 }, { $set: { lock: 1 } }, { $unset: { 'lock.tags': '' } }, { $rename: { x: 'lock' } },
    { $rename: { 'lock.fence': 'x' } }, [{ $set: { lock: 1 } }], [{ $set: { 'lock.fence': 1 } }], [{ $unset: 'lock' }], [{ $unset: ['x', 'lock.v'] }],
    [{ $replaceWith: {} }], [{ $project: { x: 1 } }], [{ $set: { x: 1 }, $unset: 'y' }], [1], [{ $set: 1 }], [{ $unset: 1 }], { $rename: { x: 1 } },
    { $set: { 'items.$.q': 1 } }, { $rename: { x: 'y.$' } }, { $pull: { 'items.$': 1 } }, [{ $set: { 'items.$': 1 } }], [{ $unset: ['items.$.q'] }],
  ]) await assert.rejects(lease.update(update), { name: 'TypeError', message: /^doclock: / })
  await assert.rejects(lease.update({ $set: { loop } }))
  await assert.rejects(lease.update({ $set: { x: 1 } }, { arrayFilters: 1 }), TypeError)
  await assert.rejects(lease.update([{ $set: { x: 1 } }], { arrayFilters: [{ x: 1 }] }), TypeError)
  await assert.rejects(lease.update({ $set: { x: 1 } }, { upsert: true }), TypeError)
  assert.equal(sent.length, before)
  await lease.update({ $set: { lock2: 1, locks: { lock: 1 }, list: [1] } })
  await lease.update({ $inc: { 'list.$[]': 1 } })
})

// Others' texts come from the document. They steer no terminal, and begin no line in a log.
test("others' texts in errors", async () => {
  const evil = 'x\ny\x1b[2J\x9b\u202e\u2028\u{e0001}'
  const entry = { id: new UUID(), owner: evil, fence: 1, seq: 1, expires: new Date(Date.now() + 60_000) }
  for (const lock of [{ tags: { write: [entry] } }, { tags: { [evil]: [entry] } }, { tags: { [evil]: 7 } }, { v: evil }, { fence: evil }]) {
    const id = await make({ lock })
    await assert.rejects(fair.tryAcquire(id, 'write'), ({ message }) => !/[\p{C}\p{Zl}\p{Zp}]/u.test(message) && message.includes('\\u202e'))
  }
  await assert.rejects(fair.tryAcquire(evil, 'write'), ({ message }) => !/[\p{C}\p{Zl}\p{Zp}]/u.test(message))
})

test('no document', async () => {
  await assert.rejects(fair.tryAcquire('nobody', 'write'), NotFoundError)
  await assert.rejects(fair.acquire('nobody', 'write'), NotFoundError)
  const id = await make()
  const lease = await fair.tryAcquire(id, 'write')
  await documents.deleteOne({ _id: id })
  await assert.rejects(lease.renew(), LostError)
})

// remove deletes a document that others write: DocumentDB's delete can miss it then, and says that it deleted none.
const remove = async (id) => {
  while ((await documents.deleteOne({ _id: id })).deletedCount === 0) await new Promise(setImmediate)
}

test('a document that is deleted while somebody waits', async () => {
  const id = await make()
  await fair.tryAcquire(id, 'write')
  const waits = fair.acquire(id, 'write')
  while ((await entries(id, 'write')).length < 2) await new Promise(setImmediate)
  await Promise.all([
    assert.rejects(waits, NotFoundError),
    remove(id),
  ])
})

test('a waiting entry that was removed arrives anew', async () => {
  const id = await make()
  const first = await fair.tryAcquire(id, 'write')
  const waits = fair.acquire(id, 'write')
  while ((await entries(id, 'write')).length < 2) await new Promise(setImmediate)
  const [, { id: gone }] = await entries(id, 'write')
  await documents.updateOne({ _id: id }, { $pull: { 'lock.tags.write': { id: gone } } })
  await first.release()
  const lease = await waits
  assert.ok(!lease.id.equals(gone))
})

test('a field that is no lock', async () => {
  for (const lock of [
    { v: 3, tags: {} }, { v: 'x' }, 7, [], { tags: [] }, { tags: { write: 7 } }, { tags: { other: [1] } }, { fence: -1 }, { fence: 2 ** 53 }, { fence: 'x' },
  ]) {
    const id = await make({ lock })
    const before = await get(id)
    await assert.rejects(fair.tryAcquire(id, 'write'), FormatError, JSON.stringify(lock))
    await assert.rejects(fair.acquire(id, 'write'), FormatError)
    assert.deepEqual(await get(id), before)
  }
})

test('what is a lock, and unknown fields', async () => {
  for (const lock of [null, {}, { v: 1 }, { v: null }, { tags: null }, { tags: { write: null, other: [] } }, { fence: 5.0, more: [1] }, { fence: null }]) {
    const id = await make({ lock })
    const lease = await fair.tryAcquire(id, 'write')
    assert.ok(lease.fence > 1e12)
    assert.deepEqual((await get(id)).lock.more, lock?.more)
    await lease.release()
  }
})

test('a newer version while somebody waits', async () => {
  const id = await make()
  await fair.tryAcquire(id, 'write')
  const waits = fair.acquire(id, 'write')
  while ((await entries(id, 'write')).length < 2) await new Promise(setImmediate)
  await Promise.all([
    assert.rejects(waits, FormatError),
    documents.updateOne({ _id: id }, { $set: { 'lock.v': 3 } }),
  ])
})

test('maxWait', async () => {
  const id = await make()
  await fair.tryAcquire(id, 'write')
  const begun = performance.now()
  await assert.rejects(fair.acquire(id, 'write', { maxWait: 120 }), (err) => {
    assert.ok(err instanceof ConflictError)
    const [entry] = err.entries
    assert.deepEqual([entry.tag, entry.owner, err.entries.length], ['write', 'test/1', 1])
    assert.ok(entry.remaining > 50_000 && entry.expires > entry.since && entry.fence === entry.seq)
    return true
  })
  assert.ok(performance.now() - begun >= 120)
  assert.equal((await entries(id, 'write')).length, 1, 'its entry is gone')
})

test('a signal ends a wait', async () => {
  for (const rules of [presets.fair, presets.exclusive]) {
    const id = await make()
    const leaves = new AbortController()
    const lease = await locker(rules).tryAcquire(id, 'write')
    const waits = locker(rules).acquire(id, 'write', { signal: leaves.signal })
    setTimeout(() => leaves.abort(new Error('enough')), 50)
    await assert.rejects(waits, { message: 'enough' })
    assert.equal((await entries(id, 'write')).length, 1)
    const { collection, sent } = counted()
    await assert.rejects(locker(rules, {}, collection).tryAcquire(id, 'write', { signal: leaves.signal }), { message: 'enough' })
    assert.deepEqual(sent, [])
    await lease.release()
  }
})

test('bad input', async () => {
  const good = { rules: presets.fair, owner: 'a' }
  const bad = {
    rules: [undefined, null, 'fair', {}, presets.semaphore, { 'a b': {} }, { a: 1 }, { a: { waits: ['a'] } }, { a: { assertive: 'a' } },
      { a: { assertive: ['b'] } }, { a: { assertive: ['a'], cooperative: ['a'] } }, { a: { assertive: [{ tag: 'a', allow: -1 }] } }, { a: { assertive: [null] } }],
    owner: [undefined, 7, ''],
    ttl: [0, -1, 1.5, NaN, '5', Infinity, 2 ** 31, null],
    waitTTL: [0, 1.5, '5', null],
    clockTolerance: [-1, 0.5, NaN, null],
    other: [1],
  }
  for (const [name, values] of Object.entries(bad)) {
    for (const value of values) {
      assert.throws(() => new Locker(documents, { ...good, [name]: value }), { name: 'TypeError', message: /^doclock: .*; it is / }, `${name} ${value}`)
    }
  }
  for (const collection of [undefined, {}, 'orders']) assert.throws(() => new Locker(collection, good), TypeError)
  assert.throws(() => new Locker(documents), TypeError)
  for (const n of [0, 1.5, '2', undefined]) assert.throws(() => presets.semaphore(n), TypeError)

  const { collection, sent } = counted()
  const strict = new Locker(collection, good)
  for (const id of [undefined, [1], /x/, { $gt: 0 }, new Map(), () => 1, Symbol('x')]) await assert.rejects(strict.tryAcquire(id, 'write'), TypeError)
  for (const tag of [undefined, 'slot', '__proto__']) await assert.rejects(strict.tryAcquire(1, tag), TypeError)
  for (const maxWait of [-1, NaN, '5']) await assert.rejects(strict.acquire(1, 'write', { maxWait }), TypeError)
  await assert.rejects(strict.acquire(1, 'write', { signal: {} }), TypeError)
  await assert.rejects(strict.tryAcquire(1, 'write', { maxWait: 1 }), TypeError)
  assert.deepEqual(sent, [])
})
