// Who is refused, who waits, who is granted: derived by hand from what the presets mean.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ConflictError, presets } from '../doclock.js'
import { entries, expire, get, locker, make, relayed } from './server.js'

// asked tells what an acquire finds at its first command: granted, waits or refused.
let askers = 0
const asked = async (rules, id, tag) => {
  const owner = `asked ${++askers}`
  let image
  const first = relayed(async (command, send) => {
    const reply = await send()
    if (command.comment === 'doclock acquire') image ??= reply.value
    return reply
  })
  const lease = await locker(rules, { owner }, first).acquire(id, tag, { maxWait: 0 }).catch((err) => {
    if (!(err instanceof ConflictError)) throw err
  })
  if (lease) return 'granted'
  return image.lock.tags[tag]?.some((e) => e.owner === owner) ? 'waits' : 'refused'
}

const tables = {
  exclusive: ['write', { write: 'refused' }],
  readPreferring: ['read write', { read: 'granted refused', write: 'refused refused' }],
  writePreferring: ['read write', { read: 'granted waits', write: 'refused refused' }],
  fair: ['read write', { read: 'granted waits', write: 'waits waits' }],
  multiGranularity: ['IS IX S SIX X', {
    IS: 'granted granted granted granted refused',
    IX: 'granted granted refused refused refused',
    S: 'granted refused granted refused refused',
    SIX: 'granted refused refused refused refused',
    X: 'refused refused refused refused refused',
  }],
}
for (const [name, [tags, table]] of Object.entries(tables)) {
  test(name, async () => {
    const rules = presets[name]
    for (const [held, row] of Object.entries(table)) {
      for (const [i, tag] of tags.split(' ').entries()) {
        const want = row.split(' ')[i]
        const id = await make()
        await locker(rules).tryAcquire(id, held)
        assert.equal(await asked(rules, id, tag), want, `${held} is held, ${tag} asked`)
        const own = (await entries(id, tag)).filter((e) => e.owner.startsWith('asked'))
        assert.equal(own.length, want === 'granted' ? 1 : 0, `${held}, ${tag}: whoever gives up leaves nothing`)

        const other = await make()
        await locker(rules).tryAcquire(other, held)
        const before = await get(other)
        const tries = locker(rules).tryAcquire(other, tag)
        if (want === 'granted') await tries
        else {
          await assert.rejects(tries, (err) => err instanceof ConflictError && err.entries.length === 1 && err.entries[0].tag === held)
          assert.deepEqual(await get(other), before, 'a try that is refused writes nothing')
        }
      }
    }
  })
}

test('semaphore', async () => {
  for (const n of [1, 2, 3]) {
    const id = await make()
    const rules = presets.semaphore(n)
    for (let i = 0; i < n; i++) await locker(rules).tryAcquire(id, 'slot')
    await assert.rejects(locker(rules).tryAcquire(id, 'slot'), (err) => err instanceof ConflictError && err.entries.length === n)
    assert.equal(await asked(rules, id, 'slot'), 'waits')
    await expire(id, 'slot')
    assert.equal(await asked(rules, id, 'slot'), 'granted')
  }
})

test('rules with a tolerant refusal', async () => {
  const rules = { slot: { cooperative: [{ tag: 'slot', allow: 1 }] } }
  const id = await make()
  assert.equal(await asked(rules, id, 'slot'), 'granted')
  assert.equal(await asked(rules, id, 'slot'), 'granted')
  assert.equal(await asked(rules, id, 'slot'), 'refused')
})

test('a tag that the rules do not have refuses all', async () => {
  const id = await make()
  await locker(presets.multiGranularity).tryAcquire(id, 'IS')
  await assert.rejects(locker(presets.readPreferring).tryAcquire(id, 'read'), (err) => err.entries[0].tag === 'IS')
  await expire(id, 'IS')
  await locker(presets.readPreferring).tryAcquire(id, 'read')
  assert.deepEqual(Object.keys((await get(id)).lock.tags), ['read'])
})

// queue has waiters arrive one by one while `held` is held.
const queue = async (rules, held, arrivals) => {
  const id = await make()
  const first = await locker(rules).tryAcquire(id, held)
  const told = [], leases = []
  for (const [i, tag] of arrivals.entries()) {
    const name = `${tag} ${i}`
    leases.push(locker(rules, { owner: name }).acquire(id, tag).then((lease) => (told.push(name), lease)))
    while (!(await entries(id, tag)).some((e) => e.owner === name)) await new Promise(setImmediate)
  }
  return { id, first, told, leases }
}

test('fair grants in the order of arrival', async () => {
  const { first, told, leases } = await queue(presets.fair, 'write', ['read', 'read', 'write', 'read'])
  await first.release()
  await (await leases[1]).release()
  await (await leases[0]).release()
  await (await leases[2]).release()
  await (await leases[3]).release()
  assert.deepEqual(told.slice(0, 2).sort(), ['read 0', 'read 1'])
  assert.deepEqual(told.slice(2), ['write 2', 'read 3'])
})

test('fair: a reader waits behind a waiting writer', async () => {
  const { id, first, told, leases } = await queue(presets.fair, 'read', ['write'])
  await assert.rejects(locker(presets.fair).tryAcquire(id, 'read'), (err) => err.entries[0].fence === undefined)
  assert.equal(await asked(presets.fair, id, 'read'), 'waits')
  assert.deepEqual(told, [])
  await first.release()
  await (await leases[0]).release()
})

test('writePreferring: a waiting writer refuses readers and writers', async () => {
  const { id, first, leases } = await queue(presets.writePreferring, 'read', ['write'])
  assert.equal(await asked(presets.writePreferring, id, 'read'), 'refused')
  assert.equal(await asked(presets.writePreferring, id, 'write'), 'refused')
  await first.release()
  await (await leases[0]).release()
})

test('a semaphore grants in the order of arrival', async () => {
  const { first, told, leases } = await queue(presets.semaphore(1), 'slot', ['slot', 'slot', 'slot'])
  await first.release()
  for (const lease of leases) await (await lease).release()
  assert.deepEqual(told, ['slot 0', 'slot 1', 'slot 2'])
})

test('whoever is refused asks again until the lock is free', async () => {
  for (const [rules, held, tag] of [
    [presets.exclusive, 'write', 'write'], [presets.readPreferring, 'read', 'write'], [presets.writePreferring, 'write', 'read'],
    [presets.multiGranularity, 'S', 'X'],
  ]) {
    const id = await make()
    const first = await locker(rules).tryAcquire(id, held)
    const second = locker(rules).acquire(id, tag)
    await first.release()
    assert.ok((await second).fence > first.fence)
  }
})
