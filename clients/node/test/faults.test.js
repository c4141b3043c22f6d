// What becomes of a call whose commands are lost, late or executed twice.
import assert from 'node:assert/strict'
import { connect, createServer } from 'node:net'
import { test } from 'node:test'
import { Long, MongoClient, MongoServerError, UUID } from 'mongodb'
import { ConflictError, FormatError, LostError, NotFoundError, UnknownError, presets } from '../doclock.js'
import { counted, documents, entries, expire, get, jump, locker, make, relayed, silence, uriOf } from './server.js'

// faulty is a collection whose commands of one kind get their fates one by one: 'lost' is not executed, 'reply lost' is
// executed without an answer, 'later' is executed when run() is called; a function is called instead; then all is well.
const faulty = (kind, ...fates) => {
  const late = [], sent = []
  const collection = relayed(async (command, send, name) => {
    sent.push(command.comment ?? name)
    const fate = (command.comment ?? name) === kind && fates.shift()
    if (fate === 'lost') return silence()
    if (fate === 'reply lost') return send().then(silence)
    if (fate === 'later') return late.push(send), silence()
    return fate ? fate(send, command) : send()
  })
  return { collection, sent, run: async () => { for (const send of late.splice(0)) await send() } }
}
const answerNull = () => ({ value: null })
const refuse = (code, more) => () => { throw new MongoServerError({ message: `code ${code}`, code, ok: 0, ...more }) }
const client = (wire, rules = presets.fair, options = {}) => locker(rules, options, wire.collection)

for (const [kind, call] of [
  ['doclock renew', (lease) => lease.renew()],
  ['doclock update', (lease) => lease.update({ $inc: { x: 1 } })],
  ['doclock update', (lease) => lease.update([{ $set: { x: { $add: [{ $ifNull: ['$x', 0] }, 1] } } }])],
  ['doclock release', (lease) => lease.release()],
]) {
  for (const fates of [['lost'], ['reply lost'], ['lost', 'reply lost', 'lost'], ['later']]) {
    test(`${kind}: ${fates}`, async () => {
      const id = await make()
      const wire = faulty(kind, ...fates)
      const lease = await client(wire).tryAcquire(id, 'write')
      await call(lease)
      const before = await get(id)
      if (kind === 'doclock update') assert.equal(before.x, 1)
      await wire.run()
      if (kind !== 'doclock renew') assert.deepEqual(await get(id), before, 'a late execution does nothing')
      if (kind !== 'doclock release') {
        assert.ok(lease.valid())
        await lease.release()
      }
      assert.deepEqual(await entries(id, 'write'), [])
    })
  }
}

for (const fates of [['lost'], ['reply lost'], ['later'], ['reply lost', 'lost', 'reply lost']]) {
  test(`acquire: ${fates}`, async () => {
    const id = await make()
    const wire = faulty('doclock acquire', ...fates)
    const lease = await client(wire).tryAcquire(id, 'write')
    await wire.run()
    assert.equal((await entries(id, 'write')).length, 1)
    await lease.renew()
    await lease.release()
  })

  test(`confirm: ${fates}`, async () => {
    const id = await make()
    const first = await locker(presets.fair).tryAcquire(id, 'write')
    const wire = faulty('doclock confirm', ...fates)
    const waits = client(wire).acquire(id, 'write')
    while ((await entries(id, 'write')).length < 2) await new Promise(setImmediate)
    await first.release()
    const lease = await waits
    await wire.run()
    await lease.renew()
    await lease.release()
    assert.deepEqual(await entries(id, 'write'), [])
  })
}

test('the validity counts from the send of the attempt that was answered', async (t) => {
  const slow = (send) => (jump(t, 15_000), send())
  const id = await make()
  const lease = await client(faulty('doclock acquire', slow)).tryAcquire(id, 'write')
  assert.ok(lease.remaining() <= 59_999 - 15_000)
  const repeated = await client(faulty('doclock acquire', (send) => slow(send).then(silence))).tryAcquire(await make(), 'write')
  assert.ok(repeated.remaining() > 59_999 - 15_000)
})

test('an attempt ends after a third of the TTL', async () => {
  const id = await make()
  const wire = faulty('doclock acquire', () => new Promise(() => {}))
  const lease = await client(wire, presets.fair, { ttl: 3000 }).tryAcquire(id, 'write')
  assert.deepEqual(wire.sent.filter((s) => s === 'doclock acquire').length, 2)
  await lease.release()
})

test('an update of unknown outcome', async () => {
  const id = await make()
  const wire = faulty('doclock update', 'later', answerNull)
  const lease = await client(wire).tryAcquire(id, 'write')
  await assert.rejects(lease.update({ $set: { x: 1 } }), UnknownError)
  const before = wire.sent.length
  await assert.rejects(lease.update({ $set: { y: 1 } }), UnknownError)
  assert.equal(wire.sent.length, before, 'no other number is sent')
  await lease.renew()
  await wire.run()
  assert.equal((await get(id)).x, 1)
  await lease.release()
})

test('an update whose reply was lost, and then the lease', async () => {
  const id = await make()
  const wire = faulty('doclock update', (send) => send().then(async () => {
    await expire(id, 'write')
    await locker(presets.fair).tryAcquire(id, 'write')
    return silence()
  }))
  const lease = await client(wire).tryAcquire(id, 'write')
  await assert.rejects(lease.update({ $set: { x: 1 } }), (err) => err instanceof UnknownError && err.cause instanceof LostError)
  assert.equal((await get(id)).x, 1)
  assert.equal(lease.valid(), false)
  await assert.rejects(lease.renew(), LostError)
})

test('a refusal proves nothing of an earlier attempt', async () => {
  const id = await make({ x: 1 })
  const wire = faulty('doclock update', 'reply lost', refuse(121))
  const lease = await client(wire).tryAcquire(id, 'write')
  await assert.rejects(lease.update({ $inc: { x: 1 } }), (err) => err instanceof UnknownError && err.cause.code === 121)
})

test('which errors refuse for good', async () => {
  for (const code of [2, 13, 52, 57, 121, 11000, 15950, 40176, 4890500]) {
    const wire = faulty('doclock acquire', refuse(code))
    await assert.rejects(client(wire).tryAcquire(await make(), 'write'), { code })
    assert.ok(!wire.sent.includes('doclock clean-up'))
  }
  for (const fate of [refuse(1), refuse(50), refuse(58), refuse(10107), refuse(11000, { writeConcernError: { code: 64 } }), refuse(undefined)]) {
    const wire = faulty('doclock acquire', fate)
    const lease = await client(wire).tryAcquire(await make(), 'write')
    assert.equal(wire.sent.filter((s) => s === 'doclock acquire').length, 2)
    await lease.release()
  }
})

test('an overloaded server is asked again after a pause, and did nothing', async () => {
  const id = await make()
  const wire = faulty('doclock update', refuse(462, { errorLabels: ['SystemOverloadedError', 'RetryableError'] }), answerNull)
  const lease = await client(wire).tryAcquire(id, 'write')
  const begun = performance.now()
  await assert.rejects(lease.update({ $set: { x: 1 } }), LostError)
  assert.ok(performance.now() - begun >= 400)
})

test('no answer at all, for 30 s', async (t) => {
  const id = await make()
  const ends = () => (jump(t, 31_000), silence())
  for (const [kind, call] of [['renew', (l) => l.renew()], ['update', (l) => l.update({ $set: { x: 1 } })], ['release', (l) => l.release()]]) {
    const lease = await client(faulty(`doclock ${kind}`, 'lost', ends)).tryAcquire(id, 'write')
    await assert.rejects(call(lease), UnknownError)
    assert.equal(lease.valid(), kind !== 'release')
    t.mock.restoreAll()
    await lease.release()
  }
  const wire = faulty('doclock acquire', 'reply lost', ends)
  await assert.rejects(client(wire).tryAcquire(id, 'write'), UnknownError)
  assert.equal(wire.sent.at(-1), 'doclock clean-up')
  assert.deepEqual(await entries(id, 'write'), [])
})

test('a release of unknown outcome', async (t) => {
  const id = await make()
  const wire = faulty('doclock release', (send) => send().then(() => (jump(t, 61_000), silence())), undefined)
  const lease = await client(wire).tryAcquire(id, 'write')
  await assert.rejects(lease.release(), UnknownError) // its 30 s are over
  await assert.rejects(lease.release(), UnknownError) // it finds nothing; the lease's time is up
  await assert.rejects(lease.renew(), LostError)
})

test('a release that finds another fencing token', async () => {
  const id = await make()
  const lease = await locker(presets.fair).tryAcquire(id, 'write')
  await documents.updateOne({ _id: id }, { $set: { 'lock.tags.write.0.fence': lease.fence + 1 } })
  await assert.rejects(lease.release(), LostError)
})

test('a call that is abandoned cleans up, also after its command', async () => {
  const id = await make()
  const leaves = new AbortController()
  const wire = faulty('doclock acquire', (send) => {
    leaves.abort(new Error('enough'))
    setTimeout(send, 100)
    return new Promise(() => {})
  })
  await assert.rejects(client(wire).tryAcquire(id, 'write', { signal: leaves.signal }), { message: 'enough' })
  assert.deepEqual(await entries(id, 'write'), [])
  assert.ok(wire.sent.filter((s) => s === 'doclock clean-up').length > 1)
})

test('a refused acquire after a lost one cleans up', async () => {
  const id = await make()
  await locker(presets.exclusive).tryAcquire(id, 'write')
  const wire = faulty('doclock acquire', 'lost')
  await assert.rejects(client(wire, presets.exclusive).tryAcquire(id, 'write'), ConflictError)
  assert.ok(wire.sent.includes('doclock clean-up'))
})

// ---- A server with members: hello says so, and `proof` reads where nothing was found.

// members has the relay answer hello as a replica set does. The tests' server may know no linearizable reads.
const members = (wire, proofs = []) => {
  const levels = []
  const collection = relayed(async (command, send, name) => {
    if (name === 'hello') return { ok: 1, setName: 'rs' }
    if (name !== 'find') return send()
    levels.push([command.comment, command.readConcern.level, command.maxTimeMS > 0])
    command.readConcern.level = 'majority'
    return (proofs.shift() ?? send)()
  }, { collectionName: wire.collection.collectionName, db: wire.collection.db })
  return { collection, levels }
}

test('a deposed primary finds nothing', async () => {
  for (const [kind, call] of [
    ['acquire', undefined], ['renew', (l) => l.renew()], ['update', (l) => l.update({ $inc: { x: 1 } })], ['release', (l) => l.release()],
  ]) {
    const id = await make({ x: 0 })
    const wire = members(faulty(`doclock ${kind}`, answerNull, answerNull))
    const lease = await client(wire).tryAcquire(id, 'write')
    await call?.(lease)
    assert.deepEqual(wire.levels, [['doclock proof', 'linearizable', true], ['doclock proof', 'linearizable', true]])
    assert.equal((await get(id)).x, kind === 'update' ? 1 : 0)
  }
})

test('nothing was found, and it is proven', async () => {
  await assert.rejects(client(members(faulty())).tryAcquire('nobody', 'write'), NotFoundError)
  const id = await make()
  const wire = members(faulty())
  const lease = await client(wire).tryAcquire(id, 'write')
  await expire(id, 'write')
  await locker(presets.fair).tryAcquire(id, 'write')
  await assert.rejects(lease.renew(), LostError)
  assert.equal(wire.levels.length, 1)
})

test('a proof that is refused or not answered proves nothing', async (t) => {
  const id = await make()
  for (const proof of [refuse(13), () => (jump(t, 31_000), silence())]) {
    const wire = members(faulty('doclock renew', answerNull), [proof])
    const lease = await client(wire).tryAcquire(id, 'write')
    await assert.rejects(lease.renew(), UnknownError)
    t.mock.restoreAll()
    assert.ok(lease.valid())
    await lease.release()
  }
})

test('a lost reply of an update, and members', async () => {
  const id = await make()
  const wire = members(faulty('doclock update', 'reply lost'))
  const lease = await client(wire).tryAcquire(id, 'write')
  await lease.update({ $inc: { x: 1 } })
  assert.equal((await get(id)).x, 1)
  assert.equal(wire.levels.length, 2) // proof, and read
})

// A waiter asks some 50 times in 3 s.
test('a waiter does not hurry beside an expired entry with a mark', async () => {
  for (const rules of [presets.exclusive, presets.fair]) {
    const entry = {
      id: new UUID(), owner: 'go/1', seq: Long.fromNumber(1), fence: Long.fromNumber(1), since: new Date(1), expires: new Date(2),
      fenced: { id: new UUID(), slots: 1 },
    }
    const id = await make({ lock: { v: 2, fence: Long.fromNumber(1), tags: { write: [entry] } } })
    const { collection, sent } = counted()
    await assert.rejects(locker(rules, {}, collection).acquire(id, 'write', { maxWait: 3000 }), ConflictError)
    assert.ok(sent.length < 120, `${sent.length} commands in 3 s`)
  }
})

test('a server with members that refuses linearizable reads needs no proof', async () => {
  const id = await make()
  for (const code of [115, 123, 148, 238]) {
    await assert.rejects(client(members(faulty(), [refuse(code)])).tryAcquire('nobody', 'write'), NotFoundError, `${code}`)
    const lease = await client(members(faulty(), [refuse(code)])).tryAcquire(id, 'write')
    await documents.updateOne({ _id: id }, { $unset: { 'lock.tags': 1 } })
    await assert.rejects(lease.update({ $set: { x: 1 } }), LostError, `${code}`)
  }
})

test('the last fence', async () => {
  const id = await make({ lock: { fence: Long.fromString('9007199254740991') } })
  await assert.rejects(locker(presets.fair).tryAcquire(id, 'write'), FormatError)
  await assert.rejects(locker(presets.fair).acquire(id, 'write', { maxWait: 100 }), FormatError)
})

// The renewal finds nothing because of the release. It says nothing of who was let in.
test('a renewal that a release overtakes', async (t) => {
  const id = await make()
  let arrive
  const late = new Promise((resolve) => { arrive = resolve })
  let releases = 0
  const both = relayed((command, send) => {
    if (command.comment === 'doclock renew') return late.then(send)
    if (command.comment === 'doclock release' && ++releases === 1) return send().then(() => (jump(t, 31_000), silence()))
    return send()
  })
  const lease = await locker(presets.fair, {}, both).tryAcquire(id, 'write')
  const renewal = lease.renew()
  await assert.rejects(lease.release(), UnknownError)
  t.mock.restoreAll()
  arrive()
  await assert.rejects(renewal, LostError)
  await lease.release() // it was released within its time, and nobody has broken it
})

// ---- A connection that breaks

test('replies that are lost with their connection', async () => {
  const { hostname, port } = new URL(uriOf())
  let lose = false
  const sockets = new Set()
  const proxy = createServer((inner) => {
    const outer = connect(port || 27017, hostname)
    for (const socket of [inner, outer]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => { inner.destroy(); outer.destroy() })
    }
    inner.pipe(outer)
    outer.on('data', (data) => {
      if (lose && data.includes('value')) {
        lose = false
        return inner.destroy()
      }
      inner.write(data)
    })
  })
  await new Promise((listening) => proxy.listen(0, '127.0.0.1', listening))
  const behind = new MongoClient(uriOf((uri) => {
    uri.host = `127.0.0.1:${proxy.address().port}`
    uri.searchParams.set('directConnection', 'true')
  }))
  try {
    const collection = behind.db(documents.dbName).collection(documents.collectionName)
    const id = await make({ x: 0 })
    const fair = locker(presets.fair, {}, collection)
    lose = true
    const lease = await fair.tryAcquire(id, 'write')
    assert.equal(lose, false, 'the reply was lost')
    for (let i = 1; i <= 3; i++) {
      lose = true
      await lease.update({ $inc: { x: 1 } })
      assert.equal(lose, false)
    }
    lose = true
    await lease.renew()
    assert.deepEqual([(await get(id)).x, (await entries(id, 'write')).length], [3, 1])
    lose = true
    await lease.release()
    assert.deepEqual(await entries(id, 'write'), [])
  } finally {
    await behind.close()
    sockets.forEach((socket) => socket.destroy())
    proxy.close()
  }
})
