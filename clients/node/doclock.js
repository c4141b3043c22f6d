// A client of doclock's lock, by docs/layout.md: that page says what each command, table and time here means.
import { readFileSync } from 'node:fs'
import { BSON, Long, UUID } from 'mongodb'

// ---- Errors

/** Others hold the lock, or came earlier. `entries` are those in the way. */
export class ConflictError extends Error {
  name = 'ConflictError'
  constructor(tag, entries) {
    const who = entries.map((e) => `${e.tag} by ${e.owner}${e.fence === undefined ? ', waiting' : ''}`)
    super(`doclock: ${tag} is refused: ${who.join('; ') || 'somebody has the lock'}`)
    this.entries = entries
  }
}
/** The lease is over: others may hold the lock. */
export class LostError extends Error { name = 'LostError' }
/** Nobody knows whether the command was executed, or will be. `cause` is the last error. */
export class UnknownError extends Error { name = 'UnknownError' }
/** No document has this _id. */
export class NotFoundError extends Error { name = 'NotFoundError' }
/** The field is no lock, or a newer version wrote it. To ask again does not help. */
export class FormatError extends Error { name = 'FormatError' }
/** Silence is internal: a command has got no answer in its time. */
class Silence extends Error {}

// ---- Rules

const kinds = ['cooperative', 'assertive']
const deepFreeze = (o) => (Object.values(o).forEach((v) => typeof v === 'object' && deepFreeze(v)), Object.freeze(o))
export const presets = deepFreeze({
  exclusive: { write: { cooperative: ['write'] } },
  readPreferring: { read: { cooperative: ['write'] }, write: { cooperative: ['read', 'write'] } },
  writePreferring: { read: { cooperative: ['write'] }, write: { cooperative: ['write'], assertive: ['read'] } },
  fair: { read: { assertive: ['write'] }, write: { assertive: ['read', 'write'] } },
  multiGranularity: {
    IS: { cooperative: ['X'] },
    IX: { cooperative: ['S', 'SIX', 'X'] },
    S: { cooperative: ['IX', 'SIX', 'X'] },
    SIX: { cooperative: ['IX', 'S', 'SIX', 'X'] },
    X: { cooperative: ['IS', 'IX', 'S', 'SIX', 'X'] },
  },
  semaphore: (n) => {
    whole('the n of semaphore(n)', n, 1)
    return deepFreeze({ slot: { assertive: [n === 1 ? 'slot' : { tag: 'slot', allow: n - 1 }] } })
  },
})

// relationsOf reads rules: for each tag, in the order of bytes, a Map from another tag to { kind, allow }.
const relationsOf = (rules) => {
  demand(isPlain(rules) && Object.keys(rules).length > 0, 'rules must be one of the presets, as presets.fair', rules)
  const tags = Object.keys(rules).sort()
  return new Map(tags.map((tag) => {
    demand(/^[A-Za-z0-9_-]+$/.test(tag), 'a tag must consist of letters, digits, _ and -', tag)
    demand(isPlain(rules[tag]), `the rules of ${tag} must be { cooperative: […], assertive: […] }`, rules[tag])
    const relations = new Map()
    for (const [kind, others] of Object.entries(rules[tag])) {
      demand(kinds.includes(kind), `the rules of ${tag} must be cooperative or assertive`, kind)
      demand(Array.isArray(others), `rules.${tag}.${kind} must be an array of tags`, others)
      for (const one of others) {
        const { tag: other, allow = 0 } = typeof one === 'string' ? { tag: one } : Object(one)
        demand(tags.includes(other), `rules.${tag}.${kind} must name tags of the rules (${tags.join(', ')})`, other)
        demand(!relations.has(other), `rules.${tag} must name each tag once`, other)
        relations.set(other, { kind, allow: whole(`the allow of rules.${tag}.${kind}`, allow, 0) })
      }
    }
    return [tag, relations]
  }))
}

// ---- Bad input

const text = (value) => {
  try { return typeof value === 'string' ? JSON.stringify(value) : String(value) } catch { return typeof value }
}
const demand = (holds, rule, value) => {
  if (!holds) throw new TypeError(`doclock: ${rule}; it is ${text(value)}`)
}
function whole(name, value, least, most = 2 ** 31 - 1) {
  demand(Number.isInteger(value) && value >= least && value <= most, `${name} must be a whole number from ${least} to ${most}`, value)
  return value
}
const isPlain = (v) => typeof v === 'object' && v !== null && [Object.prototype, null].includes(Object.getPrototypeOf(v))
const known = (name, options, names) => {
  demand(isPlain(options), `${name} must be an object`, options)
  for (const key of Object.keys(options)) demand(names.includes(key), `${name} must be among ${names.join(', ')}`, key)
}
// queryOf makes the filter of a document. An operator would match other documents than the one that it names.
const queryOf = (id) => {
  const bad = id === undefined || ['function', 'symbol'].includes(typeof id) || Array.isArray(id) || id instanceof RegExp ||
    id instanceof Map || id?._bsontype === 'BSONRegExp' || (isPlain(id) && Object.keys(id).some((key) => key.startsWith('$')))
  demand(!bad, 'id must be the value of _id; no operator, array or regular expression', id)
  return copy({ _id: id })
}
// copy takes a value's bytes: whoever changes the value later does not change the repeats of a command.
const exact = { promoteValues: false, promoteBuffers: false, bsonRegExp: true }
const copy = (document) => BSON.deserialize(BSON.serialize(document, { ignoreUndefined: false }), exact)

// operatorsOf and stagesOf check a caller's update. It must not touch the lock.
const touches = (path) => path === 'lock' || path.startsWith('lock.')
const checkUpdate = (update) => {
  const untouched = (paths) => paths.forEach((path) => demand(!touches(String(path)), 'an update must not touch the field lock', path))
  if (!Array.isArray(update)) {
    demand(isPlain(update) && Object.keys(update).length > 0, 'an update must be operators, as { $set: … }, or a pipeline', update)
    for (const [name, fields] of Object.entries(update)) {
      demand(name.startsWith('$'), 'an update must be operators, as { $set: … }; no document that replaces', name)
      demand(isPlain(fields), `${name} must have fields`, fields)
      untouched([...Object.keys(fields), ...(name === '$rename' ? Object.values(fields) : [])])
    }
    return
  }
  demand(update.length > 0, 'a pipeline must have a stage', update)
  for (const stage of update) {
    const [name] = isPlain(stage) && Object.keys(stage).length === 1 ? Object.keys(stage) : []
    demand(['$set', '$addFields', '$unset'].includes(name), 'a stage must be $set, $addFields or $unset: others can drop the lock', name)
    untouched(name === '$unset' ? [stage.$unset].flat() : Object.keys(stage[name]))
  }
}

// ---- Commands, filled in from the page's JSON

const { parts, ...commands } = BSON.EJSON.parse(
  readFileSync(new URL('../../docs/layout-commands.json', import.meta.url), 'utf8'), { relaxed: false })

// fill puts values in the place of marks. It never looks into a value: an owner may contain "<id>".
const fill = (template, marks) => {
  const value = (mark) => {
    if (!Object.hasOwn(marks, mark)) throw new Error(`doclock: layout-commands.json has the mark <${mark}>, which this client does not know`)
    return marks[mark]
  }
  const words = (t) => t.replace(/<([^<>]+)>/g, (_, mark) => value(mark))
  const several = (t) => typeof t === 'string' && /^<[^<>]+…>$/.test(t) && t.slice(1, -1)
  const one = (t) => {
    if (typeof t === 'string') return /^<[^<>]+>$/.test(t) ? value(t.slice(1, -1)) : words(t)
    if (Array.isArray(t)) return t.flatMap((e) => (several(e) ? value(several(e)) : [one(e)]))
    if (!isPlain(t)) return t
    return fields(Object.entries(t).map(([k, v]) => (several(k) ? value(several(k)) : { [words(k)]: one(v) })))
  }
  return one(template)
}
// fields joins objects. Object.fromEntries takes a tag that is called __proto__, too.
const fields = (objects) => Object.fromEntries(objects.flatMap((o) => Object.entries(o)))
const either = (tests) => (tests.length === 1 ? tests[0] : { $or: tests })

// composeAcquire follows "To compose an acquire". marks has those of the caller.
const composeAcquire = (rules, marks, wait) => {
  const { tag } = marks
  const part = (name, more) => fill(parts[name], { ...marks, 'until…': {}, 'granted ms': marks['held ms'], ...more })
  const open = [], reasons = [], refusals = []
  const all = [...rules.keys()]
  all.forEach((other, i) => {
    const relation = rules.get(tag).get(other)
    if (relation && !(wait && relation.kind === 'assertive')) {
      if (relation.allow === 0) return
      refusals.push(part('test', { i, allow: relation.allow }))
    } else if (relation) reasons.push(part('test', { i, allow: relation.allow }))
    open.push({ other, i })
  })
  const mayWait = reasons.length > 0 ? ', may wait' : ''
  const entry = part(`entry${mayWait}`)
  const ownTag = (i) => (open.some((o) => o.i === i) ? part('own tag', { i, entry }) : [entry])
  const tags = fields([
    ...open.filter((o) => o.other !== tag).map(({ other, i }) => ({ [other]: part('tag', { i }) })),
    { [tag]: ownTag(all.indexOf(tag)) },
  ])
  const entered = part(`entered${mayWait}`, { 'tags…': tags, blocked: reasons.length > 0 && either(reasons) })
  return fill(commands.acquire, {
    ...marks,
    'open…': open.length === 0 ? [] : [part('open', { tags: open.map((o) => o.other).join('|') })],
    'live…': fields(open.map(({ other, i }) => part('live', { other, i }))),
    entered: refusals.length === 0 ? entered : part('entered, unless refused', { refused: either(refusals), entered }),
    'repeat ms': isAssertive(rules, tag) ? part('repeat ms, may wait') : marks['held ms'],
  })
}
const isAssertive = (rules, tag) => [...rules.get(tag).values()].some((r) => r.kind === 'assertive')

// composeConfirm follows "To compose a confirm".
const composeConfirm = (rules, marks) => {
  const part = (name, more) => fill(parts[name], { ...marks, 'until…': {}, 'confirmed ms': marks['held ms'], ...more })
  const all = [...rules.keys()]
  const entry = part('confirm: entry')
  return fill(commands.confirm, {
    ...marks,
    known: part('open', { tags: all.join('|') }),
    'live…': fields(all.map((other, i) => part('confirm: live', { other, i }))),
    'blocked…': all.flatMap((other, i) => {
      const relation = rules.get(marks.tag).get(other)
      return relation ? [part('confirm: test', { i, allow: relation.allow })] : []
    }),
    'tags…': fields(all.map((other, i) => ({ [other]: other === marks.tag ? part('own tag', { i, entry }) : part('tag', { i }) }))),
  })
}

// composeWrite is a guarded write that keeps the lock. An update has each operator once.
const composeWrite = (update, arrayFilters, marks) => {
  if (Array.isArray(update)) return fill(commands['write, pipeline'], { ...marks, 'stages…': update })
  const command = fill(commands['write, operators'], { ...marks, 'operators…': {} })
  const merged = Object.entries(command.update).map(([name, own]) => ({ [name]: fields([update[name] ?? {}, own]) }))
  return { ...command, update: fields([update, ...merged]), arrayFilters: [...arrayFilters, ...command.arrayFilters] }
}

// ---- What an image says

const number = (v) => {
  if (typeof v === 'number') return v
  return ['Long', 'Int32', 'Double', 'Decimal128'].includes(v?._bsontype) ? Number(v.toString()) : NaN
}
const isDocument = (v) => isPlain(v) && v._bsontype === undefined
const none = (v) => v === undefined || v === null
const same = (id, v) => v?._bsontype === 'Binary' && v.sub_type === 4 && v.toString('hex') === id.toString('hex')

// checkFormat fails if the field is no lock that this client may judge.
const checkFormat = (lock) => {
  const fail = (what) => { throw new FormatError(`doclock: ${what}`) }
  if (none(lock)) return
  if (!isDocument(lock)) fail('the field lock is no document')
  if (!none(lock.v) && !(number(lock.v) <= 1)) fail(`the lock has version ${lock.v}; this client knows version 1`)
  if (!none(lock.fence) && !(number(lock.fence) >= 0 && number(lock.fence) < 2 ** 53)) fail(`lock.fence is ${lock.fence}`)
  if (none(lock.tags)) return
  if (!isDocument(lock.tags)) fail('lock.tags is no document')
  for (const [tag, entries] of Object.entries(lock.tags)) {
    if (entries !== null && !(Array.isArray(entries) && entries.every(isDocument))) fail(`lock.tags.${tag} is no array of documents`)
  }
}
const entriesOf = (lock, tag) => {
  const entries = Object.hasOwn(Object(lock?.tags), tag) ? lock.tags[tag] : []
  return Array.isArray(entries) ? entries : []
}
const ownEntry = (image, tag, id) => entriesOf(image?.lock, tag).find((e) => same(id, e?.id))

// inTheWay returns the live entries that keep a tag out. A waiting entry minds those that are held or came earlier.
const inTheWay = (image, rules, tag, own) => {
  const now = image.__doclockNow
  return Object.keys(image.lock?.tags ?? {}).flatMap((other) => {
    const relation = rules.has(other) ? rules.get(tag).get(other) : { allow: 0 }
    const live = entriesOf(image.lock, other).filter((e) => e.expires instanceof Date && e.expires > now && e !== own &&
      (!own || e.fence !== undefined || number(e.seq) < number(own.seq)))
    if (!relation || live.length <= relation.allow) return []
    return live.map(({ id, owner, fence, seq, since, expires }) => ({
      tag: other, id, owner, seq: number(seq), since, expires, ...(fence !== undefined && { fence: number(fence) }),
      remaining: expires - now,
    }))
  })
}

// ---- Time. The monotonic clock stands still in a suspended machine, and the wall clock can be set: both count.

const mono = () => performance.now()
const clocks = () => ({ mono: mono(), wall: Date.now() })
const sleep = (ms, signal) => new Promise((resolve, reject) => {
  signal?.throwIfAborted()
  const end = () => { clearTimeout(timer); signal?.removeEventListener('abort', leave) }
  const leave = () => { end(); reject(signal.reason) }
  const timer = setTimeout(() => { end(); resolve() }, Math.max(0, ms))
  signal?.addEventListener('abort', leave)
})

// ---- The wire

// These codes refuse a command for good: this attempt did nothing. docs/error-codes.md has them.
const refusals = [2, 9, 13, 14, 18, 20, 22, 26, 28, 34, 40, [52, 57], 59, 61, 66, 72, 73, 115, 116, 121, 123, 148, 166, 167, 168,
  171, 201, 224, 238, 241, 263, 283, 303, [322, 324], 371, 391, 10003, 11000, [15942, 15999], [16006, 16007], 16020,
  [16034, 16035], [16410, 16412], [16554, 16556], [16608, 16612], 16702, 16837, [16874, 16883], [17040, 17049], [17080, 17083],
  17124, 17276, [17419, 17420], [28646, 28651], [28656, 28657], 28664, [28689, 28691], [28724, 28729], [28756, 28766],
  [31249, 31256], [31319, 31325], [34443, 34455], [34460, 34473], [40060, 40068], [40075, 40081], [40085, 40097], 40272, 40323,
  40324, [40352, 40353], [40386, 40400], [40413, 40415]].map((range) => [range].flat())
const isPlainReply = (err) => err?.name === 'MongoServerError' && !err.writeConcernError && !err.errorResponse?.writeConcernError
const refuses = (err) => isPlainReply(err) && refusals.some(([from, to = from]) => err.code >= from && err.code <= to)
const labelled = (err, label) => err?.errorLabelSet?.has(label) ?? err?.errorLabels?.includes(label) ?? false
const overloaded = (err) => isPlainReply(err) && labelled(err, 'SystemOverloadedError')
const rejected = (err) => overloaded(err) && labelled(err, 'RetryableError') // before the server executed anything

const patience = 30_000 // of a command's repeats
// Without a prototype in fieldsAsRaw the driver reads a tag that is called constructor, too.
const reading = { fieldsAsRaw: Object.create(null), promoteLongs: true, promoteValues: true, promoteBuffers: false, useBigInt64: false, bsonRegExp: true, raw: false }

// A call is what one call of the caller's knows: until when it repeats, its signal, and whether an attempt was silent,
// that is had no answer: it may have been executed, or may be executed later.
const newCall = (more) => ({ until: mono() + patience, silent: false, ...more })

class Wire {
  #db
  #attemptMS
  #members
  constructor(collection, ttl) {
    this.#db = collection.db
    this.collection = collection.collectionName
    this.#attemptMS = Math.min(ttl / 3, 10_000)
  }

  // attempt sends one message, and breaks off after its time. Only the generic command sends it once, without a txnNumber.
  async #attempt(db, command, { signal, attemptMS = this.#attemptMS }) {
    const stop = new AbortController()
    const leave = () => stop.abort(signal.reason)
    const timer = setTimeout(() => stop.abort(new Error('doclock: the server has not answered')), attemptMS)
    signal?.addEventListener('abort', leave)
    const stopped = new Promise((_, reject) => stop.signal.addEventListener('abort', () => reject(stop.signal.reason)))
    try {
      return await Promise.race([db.command(command, { ...reading, readPreference: 'primary', signal: stop.signal }), stopped])
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', leave)
    }
  }

  // ask repeats a command until it is answered. `sent` is the time before the send of the answered attempt.
  async #ask(command, call, db = this.#db) {
    for (let pause = 10; ; pause = Math.min(2 * pause, 1000)) {
      call.signal?.throwIfAborted()
      const sent = clocks()
      let wait = pause
      try {
        return { reply: await this.#attempt(db, command, call), sent }
      } catch (err) {
        call.silent ||= !refuses(err) && !rejected(err)
        call.signal?.throwIfAborted()
        if (refuses(err)) throw err
        if (overloaded(err)) wait = Math.min(80 * pause, 10_000) * (0.5 + Math.random())
        if (mono() + wait > call.until) throw new Silence('no answer', { cause: err })
      }
      await sleep(wait, call.signal)
    }
  }

  // members says whether the server has members, one of which may be a deposed primary.
  async members(call) {
    if (this.#members === undefined) {
      const { reply } = await this.#ask({ hello: 1 }, { ...call }, this.#db.admin())
      this.#members = reply.setName !== undefined || reply.msg === 'isdbgrid'
    }
    return this.#members
  }

  // find sends a read. It counts as no attempt of the command that it is about: a refused read only says nothing.
  async #find(template, marks, call) {
    const members = await this.members(call)
    const command = fill(template, { collection: this.collection, level: members ? 'linearizable' : 'majority', ...marks })
    if (members) command.maxTimeMS = Math.ceil(this.#attemptMS)
    const { reply } = await this.#ask(command, { ...call }).catch((err) => {
      throw refuses(err) ? new Silence('the read is refused', { cause: err }) : err
    })
    return reply.cursor.firstBatch
  }
  async read(query, call) {
    return (await this.#find(commands.read, { '_id…': query }, call))[0]
  }

  // modify sends a findAndModify. If it finds nothing, and `prove` is set, only a proof makes that count.
  async modify(command, call, prove = true) {
    const bytes = copy(command)
    for (let pause = 10; ; pause = Math.min(2 * pause, 1000)) {
      const { reply, sent } = await this.#ask(bytes, call)
      if (!none(reply.value)) return { image: reply.value, sent }
      if (!prove || !(await this.members(call))) return { image: null, sent }
      if ((await this.#find(commands.proof, { query: bytes.query }, call)).length === 0) return { image: null, sent }
      if (mono() + pause > call.until) throw new Silence('a member that is not the primary answers')
      await sleep(pause, call.signal)
    }
  }
}

// ---- Locker

export class Locker {
  #wire
  #rules
  #owner
  #ttl
  #waitTTL
  #tolerance

  constructor(collection, options = {}) {
    demand(typeof collection?.db?.command === 'function' && typeof collection.collectionName === 'string',
      'a Locker must have a Collection of the mongodb driver', collection)
    known('the options', options, ['rules', 'ttl', 'waitTTL', 'owner', 'clockTolerance'])
    const { rules, owner, ttl = 10_000, waitTTL = Math.min(5000, ttl), clockTolerance = 500 } = options
    this.#rules = relationsOf(rules)
    demand(typeof owner === 'string' && owner !== '', 'owner must be a text that says host and process, as "host/pid"', owner)
    this.#owner = owner
    this.#ttl = whole('ttl (ms)', ttl, 3)
    this.#waitTTL = whole('waitTTL (ms)', waitTTL, 3)
    this.#tolerance = whole('clockTolerance (ms)', clockTolerance, 0)
    this.#wire = new Wire(collection, ttl)
  }

  /** One decision: the lease, or an error. */
  async tryAcquire(id, tag, options = {}) {
    known('the options', options, ['signal'])
    return await this.#enter(id, tag, { ...options, wait: false, maxWait: Infinity })
  }

  /** Waits until the lock is granted, for maxWait ms at most. */
  async acquire(id, tag, options = {}) {
    known('the options', options, ['maxWait', 'signal'])
    const { maxWait = Infinity } = options
    demand(typeof maxWait === 'number' && maxWait >= 0, 'maxWait must be a number of ms from 0', maxWait)
    return await this.#enter(id, tag, { ...options, wait: true, maxWait })
  }

  async #enter(documentId, tag, { wait, maxWait, signal }) {
    const query = queryOf(documentId)
    demand(this.#rules.has(tag), `tag must be one of the rules (${[...this.#rules.keys()].join(', ')})`, tag)
    demand(signal === undefined || signal instanceof AbortSignal, 'signal must be an AbortSignal', signal)
    signal?.throwIfAborted()
    const begun = mono()
    const elapsed = () => mono() - begun
    const call = newCall({ signal })
    const marks = {
      collection: this.#wire.collection, tag, owner: this.#owner, query, '_id…': query,
      'held ms': this.#ttl + this.#tolerance, 'waiting ms': this.#waitTTL + this.#tolerance,
    }
    let ids = [], id, waiting, command
    const anew = () => {
      id = new UUID()
      ids = call.silent ? [id, ...ids] : [id]
      waiting = false
      command = composeAcquire(this.#rules, { ...marks, id }, wait)
    }
    anew()
    try {
      await this.#wire.members(call)
      for (;;) {
        call.until = Math.min(mono() + patience, begun + maxWait)
        const { image, sent } = await this.#wire.modify(command, call, !waiting)
        if (image === null && !waiting) throw new NotFoundError(`doclock: no document has _id ${text(documentId)}`)
        checkFormat(image?.lock)
        const own = ownEntry(image, tag, id)
        if (own?.fence !== undefined) {
          const fence = number(own.fence)
          return new Lease(this.#wire, { id, fence, ttl: this.#ttl, sent, marks: { ...marks, '_id…': { _id: image._id }, id, fence: Long.fromNumber(fence) } })
        }
        if (!own && waiting) { // lost: the entry had expired, and a grant removed it
          anew()
          continue
        }
        const others = image && inTheWay(image, this.#rules, tag, own)
        if (own && !waiting) {
          waiting = true
          marks['_id…'] = { _id: image._id }
          command = composeConfirm(this.#rules, { ...marks, id })
        }
        if (!wait || elapsed() >= maxWait) throw new ConflictError(tag, others)
        const pause = Math.min(Math.max(elapsed() / 8, 2), 1000) * (0.5 + Math.random())
        const latest = waiting ? this.#waitTTL / 3 : Infinity
        await sleep(Math.min(pause, latest, maxWait - elapsed(), ...others.map((e) => e.remaining)), signal)
      }
    } catch (err) {
      if (!(err instanceof FormatError) && (waiting || call.silent)) await this.#cleanUp({ ...marks, 'ids…': ids }, call.silent)
      if (err instanceof Silence) throw new UnknownError('doclock: the acquire got no answer; it holds nothing', { cause: err.cause })
      throw err
    }
  }

  // cleanUp removes the entry of an acquire that has no lease. After a silent attempt the entry may come later: cleanUp
  // looks for it again, for a second. An entry that comes after that expires by itself.
  async #cleanUp(marks, silent) {
    const call = newCall({ until: mono() + 1000, attemptMS: Math.min(this.#ttl / 3, 1000) })
    const command = fill(commands['clean up'], marks)
    try {
      for (let pause = 50; ; pause *= 2) {
        const { image } = await this.#wire.modify(command, call, false)
        if (image !== null || !silent || mono() + pause > call.until) return
        await sleep(pause)
      }
    } catch {} // the entry expires by itself
  }
}

// ---- Lease

class Lease {
  #wire
  #marks
  #ttl
  #end // by both clocks
  #k = 0
  #writes = Promise.resolve() // the last guarded write, or the release
  #unsure // the error of a guarded write that may still be executed
  #lost // the error that says so
  #ended = false // a release was called
  #released = false
  #releaseSilent = false

  constructor(wire, { id, fence, ttl, sent, marks }) {
    this.#wire = wire
    this.#marks = marks
    this.#ttl = ttl
    this.id = id
    this.fence = fence
    this.#extend(sent)
  }

  // The validity counts from before the send of the attempt that was answered.
  #extend(sent) {
    const end = { mono: sent.mono + this.#ttl - 1, wall: sent.wall + this.#ttl - 1 }
    if (!this.#end || end.mono > this.#end.mono) this.#end = end
  }
  #timeLeft() {
    const now = clocks()
    return Math.max(0, Math.min(this.#end.mono - now.mono, this.#end.wall - now.wall))
  }

  /** How long the lock is held for certain, in ms. */
  remaining() {
    return this.#ended || this.#lost ? 0 : this.#timeLeft()
  }
  valid() {
    return this.remaining() > 0
  }

  #check() {
    if (this.#lost) throw this.#lost
    if (this.#ended) throw new LostError('doclock: the lease was released')
  }
  #lose(what) {
    this.#lost ??= new LostError(`doclock: the lease is lost${what}`)
    return this.#lost
  }

  // settle sends a command. An attempt of it that was silent makes a later refusal no proof.
  async #settle(command, call, what) {
    try {
      return await this.#wire.modify(command, call)
    } catch (err) {
      if (refuses(err) && !call.silent) throw err
      throw new UnknownError(`doclock: whether the ${what} was executed is unknown`, { cause: err instanceof Silence ? err.cause : err })
    }
  }

  // inTurn runs one guarded write, or the release, at a time.
  async #inTurn(f) {
    const turn = this.#writes.then(f)
    this.#writes = turn.catch(() => {})
    return await turn
  }

  /** Extends the lease by its TTL. It succeeds after the lease's time, too, as long as nobody else was granted. */
  async renew() {
    this.#check()
    const { image, sent } = await this.#settle(fill(commands.renew, this.#marks), newCall(), 'renewal')
    if (image === null) throw this.#lose('')
    this.#extend(sent)
    this.#check()
  }

  /** Writes the document under the lock: operators, or a pipeline of $set, $addFields and $unset. */
  async update(update, options = {}) {
    known('the options', options, ['arrayFilters'])
    const { arrayFilters = [] } = options
    demand(Array.isArray(arrayFilters) && arrayFilters.every(isPlain), 'arrayFilters must be an array of filters', arrayFilters)
    checkUpdate(update)
    const bytes = copy({ update, arrayFilters })
    return await this.#inTurn(() => this.#write(bytes))
  }

  async #write({ update, arrayFilters }) {
    this.#check()
    // A write that may still be executed is not settled: the next number must wait.
    if (this.#unsure) throw new UnknownError('doclock: an earlier update may still be executed; this one was not sent', { cause: this.#unsure })
    const k = ++this.#k
    const call = newCall()
    try {
      const command = composeWrite(update, arrayFilters, { ...this.#marks, k: Long.fromNumber(k) })
      const { image } = await this.#settle(command, call, 'update')
      if (image !== null) return
      if (!call.silent) throw this.#lose('; the update was not applied')
      await this.#look(k, call)
    } catch (err) {
      if (err instanceof UnknownError) this.#unsure = err
      throw err
    }
  }

  // look tells what became of write k, an attempt of which was silent.
  async #look(k, call) {
    const unknown = (cause) => new UnknownError('doclock: whether the update was applied is unknown', { cause })
    const image = await this.#wire.read(this.#marks['_id…'], call).catch((err) => {
      throw unknown(err instanceof Silence ? err.cause : err)
    })
    const own = ownEntry(image, this.#marks.tag, this.id)
    // Without the entry the write may have been applied before the lease was lost.
    if (!own || number(own.fence) !== this.fence) throw unknown(this.#lose(''))
    if (!(number(own.n) >= k)) throw unknown()
  }

  /** Ends the lease. A release of unknown outcome may be called again. */
  async release() {
    if (this.#released) return
    if (this.#lost) throw this.#lost
    this.#ended = true
    return await this.#inTurn(() => this.#release())
  }

  async #release() {
    if (this.#released) return
    const call = newCall({ silent: this.#releaseSilent })
    let image
    try {
      ({ image } = await this.#settle(fill(commands.release, this.#marks), call, 'release'))
    } finally {
      this.#releaseSilent = call.silent
    }
    const own = ownEntry(image, this.#marks.tag, this.id)
    const released = own ? number(own.fence) === this.fence : call.silent && image === null && this.#timeLeft() > 0
    if (!released && !own && call.silent) throw new UnknownError('doclock: whether the release was executed is unknown')
    if (!released) throw this.#lose(' before its release')
    this.#released = true
  }
}
