// The example in the README, as a program of its own. It needs this folder alone.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { MongoClient } from 'mongodb'
import { uriOf } from './server.js'

const folder = new URL('..', import.meta.url).pathname
const copy = mkdtempSync(join(tmpdir(), 'doclock-'))
for (const file of ['commands.js', 'doclock.js', 'example.js', 'layout-commands.json', 'package.json']) copyFileSync(folder + file, join(copy, file))
symlinkSync(`${folder}node_modules`, join(copy, 'node_modules'))
const example = join(copy, 'example.js')

const uri = uriOf((uri) => { uri.pathname = `/doclock_example_${process.pid}` })
const client = await new MongoClient(uri).connect()
after(async () => {
  await client.db().dropDatabase()
  await client.close()
  rmSync(copy, { recursive: true })
})

test('the example pays the order, and leaves no entry', async () => {
  await client.db().collection('orders').insertOne({ _id: 7 })
  execFileSync(process.execPath, [example], { env: { ...process.env, MONGODB_URI: uri } })
  const order = await client.db().collection('orders').findOne()
  assert.equal(order.state, 'paid')
  assert.deepEqual(order.lock.tags, { write: [] })
})

test('the example releases the lock although its update fails', async () => {
  const orders = client.db().collection('orders')
  await orders.deleteMany({})
  await orders.createIndex({ state: 1 }, { unique: true })
  await orders.insertMany([{ _id: 7, state: 'new' }, { _id: 8, state: 'paid' }])
  const { status } = spawnSync(process.execPath, [example], { env: { ...process.env, MONGODB_URI: uri }, encoding: 'utf8' })
  assert.equal(status, 1)
  assert.deepEqual((await orders.findOne({ _id: 7 })).lock.tags, { write: [] })
  await orders.drop()
})

test('a URI that cannot be used is not printed', () => {
  for (const spoilt of ['mongodb://ann:geheim%40host:27017/', 'mongodb://ann:geheim/host', 'mongodb://h/?tls=geheim', 'geheim']) {
    const { status, stderr } = spawnSync(process.execPath, [example], { env: { ...process.env, MONGODB_URI: spoilt }, encoding: 'utf8' })
    assert.equal(status, 1)
    assert.match(stderr, /set MONGODB_URI/)
    assert.doesNotMatch(stderr, /geheim/)
  }
})
