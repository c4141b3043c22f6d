// The example in the README, as a program of its own.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { after, test } from 'node:test'
import { MongoClient } from 'mongodb'

const uri = new URL(process.env.MONGODB_URI)
uri.pathname = `/doclock_example_${process.pid}`
const client = await new MongoClient(uri.href).connect()
after(async () => {
  await client.db().dropDatabase()
  await client.close()
})

test('the example pays the order, and leaves no entry', async () => {
  await client.db().collection('orders').insertOne({ _id: 7 })
  execFileSync(process.execPath, [new URL('../example.js', import.meta.url).pathname], { env: { ...process.env, MONGODB_URI: uri.href } })
  const order = await client.db().collection('orders').findOne()
  assert.equal(order.state, 'paid')
  assert.deepEqual(order.lock.tags, { write: [] })
})
