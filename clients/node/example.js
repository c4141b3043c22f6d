import os from 'node:os'
import { MongoClient } from 'mongodb'
import { Locker, presets } from './doclock.js'

let client
try {
  client = new MongoClient(process.env.MONGODB_URI)
} catch { // its error has the URI's password in it
  throw new Error('set MONGODB_URI, as in mongodb://localhost:27017')
}
await client.connect()
const locker = new Locker(client.db().collection('orders'), {
  rules: presets.writePreferring, ttl: 30_000, owner: `${os.hostname()}/${process.pid}`,
})
const lease = await locker.acquire(7, 'write', { maxWait: 5000 }) // or tryAcquire, which does not wait
try {
  await lease.update({ $set: { state: 'paid' } }) // only applied under the lock
  if (lease.remaining() < 10_000) await lease.renew()
} finally {
  await lease.release()
}
await client.close()
