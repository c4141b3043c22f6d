import os from 'node:os'
import { MongoClient } from 'mongodb'
import { Locker, presets } from './doclock.js'

const client = await new MongoClient(process.env.MONGODB_URI).connect()
const locker = new Locker(client.db().collection('orders'), {
  rules: presets.writePreferring, ttl: 30_000, owner: `${os.hostname()}/${process.pid}`,
})
const lease = await locker.acquire(7, 'write', { maxWait: 5000 }) // or tryAcquire, which does not wait
await lease.update({ $set: { state: 'paid' } }) // only applied under the lock
if (lease.remaining() < 10_000) await lease.renew()
await lease.release()
await client.close()
