// What the tests share: a collection on a real server, and a relay in front of its commands.
import { after } from 'node:test'
import { MongoClient } from 'mongodb'
import { Locker } from '../doclock.js'

// uriOf is the URI, changed. An error of the driver or of URL would have a password in it.
export const uriOf = (change = () => {}) => {
  try {
    const uri = new URL(process.env.MONGODB_URI)
    change(uri)
    return new MongoClient(uri.href).options && uri.href
  } catch {
    throw new Error('the tests need MONGODB_URI, with one host')
  }
}
export const client = await new MongoClient(uriOf(), { serverSelectionTimeoutMS: 5000 }).connect()
const name = `doclock_node_${process.pid}`
export const documents = client.db(name).collection('documents')
after(async () => {
  await client.db(name).dropDatabase()
  await client.close()
})

// make inserts a document, and returns its _id.
let last = 0
export const make = async (fields = {}) => {
  await documents.insertOne({ _id: ++last, ...fields })
  return last
}
export const get = (id) => documents.findOne({ _id: id })
export const entries = async (id, tag) => (await get(id)).lock?.tags?.[tag] ?? []

// expire sets an entry's end to the past, as if its time had passed.
export const expire = (id, tag, nr = 0) =>
  documents.updateOne({ _id: id }, { $set: { [`lock.tags.${tag}.${nr}.expires`]: new Date(Date.now() - 60_000) } })

// relayed is the collection behind a function that sees each command. It may send it, also later, drop it, or drop its
// reply.
export const relayed = (relay, collection = documents) => {
  const db = (real) => ({
    command: (command, options) => {
      const send = () => real.command(command, options.signal?.aborted ? { ...options, signal: undefined } : options)
      return relay(command, send, Object.keys(command)[0])
    },
    admin: () => db(real.admin()),
  })
  return { collectionName: collection.collectionName, db: db(collection.db) }
}
// counted is the collection, and a list of what was sent.
export const counted = () => {
  const sent = []
  return { sent, collection: relayed((command, send) => { sent.push(command.comment ?? Object.keys(command)[0]); return send() }) }
}
export const silence = () => Promise.reject(new Error('the test lost this'))

export const locker = (rules, options = {}, collection = documents) =>
  new Locker(collection, { rules, owner: 'test/1', ttl: 60_000, ...options })

// jump moves this process's clocks on, or only one of them, until the test ends.
export const jump = (t, ms, { mono = true, wall = true } = {}) => {
  const [now, date] = [performance.now.bind(performance), Date.now]
  if (mono) t.mock.method(performance, 'now', () => now() + ms)
  if (wall) t.mock.method(Date, 'now', () => date() + ms)
}
