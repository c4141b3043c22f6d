// A client of doclock's lock, by docs/layout.md: that page says what each command, table and time here means.
import { Long, UUID } from 'mongodb'
import {
  checkUpdate, commands, composeAcquire, composeConfirm, composeWrite, copy, demand, fill, isPlain, known, presets, queryOf,
  relationsOf, text, whole,
} from './commands.js'

export { presets }

// ---- Errors

/** Others hold the lock, or came earlier. `entries` are those in the way. */
export class ConflictError extends Error {
  name = 'ConflictError'
  constructor(tag, entries) {
    const who = entries.map((e) => `${text(e.tag)} by ${text(e.owner)}${e.fence === undefined ? ', waiting' : ''}`)
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
/** The field is no lock, a newer version wrote it, or it can grant no more. To ask again does not help. */
export class FormatError extends Error { name = 'FormatError' }
/** Silence is internal: a command has got no answer in its time. */
class Silence extends Error {}

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
  if (!none(lock.v) && !(number(lock.v) <= 2)) fail(`the lock has version ${text(lock.v)}; this client knows versions 1 and 2`)
  if (!none(lock.fence) && !(number(lock.fence) >= 0 && number(lock.fence) < 2 ** 53)) fail(`lock.fence is ${text(lock.fence)}`)
  if (none(lock.tags)) return
  if (!isDocument(lock.tags)) fail('lock.tags is no document')
  for (const [tag, entries] of Object.entries(lock.tags)) {
    if (entries !== null && !(Array.isArray(entries) && entries.every(isDocument))) fail(`lock.tags has ${text(tag)}, which is no array of documents`)
  }
}
const entriesOf = (lock, tag) => {
  const entries = Object.hasOwn(Object(lock?.tags), tag) ? lock.tags[tag] : []
  return Array.isArray(entries) ? entries : []
}
// checkLimits fails if the server refuses all: no fence is left, or its clock has none.
const checkLimits = ({ lock, __doclockNow: now }) => {
  if (number(lock?.fence) >= 2 ** 53 - 1) throw new FormatError('doclock: lock.fence is the last one')
  if (!(now > 0 && now < 2 ** 53)) throw new FormatError(`doclock: the server's clock is at ${text(now)}; set it`)
}
const ownEntry = (image, tag, id) => entriesOf(image?.lock, tag).find((e) => same(id, e?.id))

// inTheWay returns the live entries that keep a tag out. A waiting entry minds those that are held or came earlier. An
// expired entry with a mark is there until somebody settles it: ask again in a second.
const inTheWay = (image, rules, tag, own) => {
  const now = image.__doclockNow
  const left = (e) => (e.expires instanceof Date && e.expires > now ? e.expires - now : e.fenced?.id?._bsontype === 'Binary' ? 1000 : 0)
  return Object.keys(image.lock?.tags ?? {}).flatMap((other) => {
    const relation = rules.has(other) ? rules.get(tag).get(other) : { allow: 0 }
    const live = entriesOf(image.lock, other).filter((e) => left(e) > 0 && e !== own &&
      (!own || e.fence !== undefined || number(e.seq) < number(own.seq)))
    if (!relation || live.length <= relation.allow) return []
    return live.map((e) => ({
      tag: other, id: e.id, owner: e.owner, seq: number(e.seq), since: e.since, expires: e.expires,
      ...(e.fence !== undefined && { fence: number(e.fence) }), remaining: left(e),
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

// These codes refuse a command for good: this attempt did nothing. They are those of internal/engine/failure.go.
const refusals = [2, 9, [13, 15], 18, 20, 22, 26, 28, 34, 40, [52, 57], 59, 61, 66, 72, 73, 115, 116, 121, 123, 148, [166, 168],
  171, 201, 224, 238, 241, 263, 283, 303, [322, 324], 371, 391, 10003, 11000, [15942, 15999], [16006, 16007], 16020,
  [16034, 16035], [16410, 16412], [16554, 16556], [16608, 16612], 16702, 16837, [16866, 16869], 16872, [16874, 16883], [17040, 17049],
  [17080, 17083], 17124, 17276, 17311, [17419, 17420], [28646, 28651], [28656, 28657], 28664, 28667, [28689, 28691], [28724, 28729],
  [28756, 28766], 31002, [31119, 31120], [31249, 31256], 31310, [31319, 31325], [34443, 34455], [34460, 34473], [40060, 40068],
  [40075, 40081], [40085, 40097], [40176, 40180], [40228, 40231], 40272, [40323, 40324], [40352, 40353], [40386, 40400],
  [40413, 40415], [51074, 51075], [51104, 51107], [51270, 51272], 1257300, 4890500, [4940400, 4940401]].map((range) => [range].flat())
const isPlainReply = (err) => err?.name === 'MongoServerError' && !err.writeConcernError && !err.errorResponse?.writeConcernError
const refuses = (err) => isPlainReply(err) && refusals.some(([from, to = from]) => err.code >= from && err.code <= to)
const overloaded = (err) => isPlainReply(err) && err.hasErrorLabel('SystemOverloadedError')
const rejected = (err) => overloaded(err) && err.hasErrorLabel('RetryableError') // before the server executed anything

const patience = 30_000 // of a command's repeats
// Without a prototype in fieldsAsRaw the driver reads a tag that is called constructor, too.
const reading = { fieldsAsRaw: Object.create(null), promoteLongs: true, promoteValues: true, promoteBuffers: false, useBigInt64: false, bsonRegExp: true, raw: false }

// A call is what one call of the caller's knows: until when it repeats, its signal, and whether an attempt was silent,
// that is had no answer: it may have been executed, or may be executed later.
const newCall = (more) => ({ until: mono() + patience, timeLeft: () => Infinity, silent: false, ...more })

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
  async #attempt(db, command, { signal, timeLeft, attemptMS = this.#attemptMS }) {
    const stop = new AbortController()
    const leave = () => stop.abort(signal.reason)
    const timer = setTimeout(() => stop.abort(new Error('doclock: the server has not answered')), Math.min(attemptMS, timeLeft()))
    signal?.addEventListener('abort', leave)
    const stopped = new Promise((_, reject) => stop.signal.addEventListener('abort', () => reject(stop.signal.reason)))
    stopped.catch(() => {})
    try {
      return await Promise.race([db.command(command, { ...reading, readPreference: 'primary', signal: stop.signal }), stopped])
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', leave)
    }
  }

  // ask repeats a command until it is answered, or no time is left. `sent` is the time before the send of the answered
  // attempt.
  async #ask(command, call, db = this.#db) {
    for (let pause = 10; ; pause = Math.min(2 * pause, 1000)) {
      call.signal?.throwIfAborted()
      if (call.timeLeft() <= 0) throw new Silence('no time is left')
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

  // find sends a read. It counts as no attempt of the command that it is about: a refused read only says nothing. A server
  // that has no linearizable reads needs no proof.
  async #find(template, marks, call) {
    const members = await this.members(call)
    const command = fill(template, { collection: this.collection, level: members ? 'linearizable' : 'majority', ...marks })
    if (members) command.maxTimeMS = Math.ceil(this.#attemptMS)
    try {
      return (await this.#ask(command, { ...call })).reply.cursor.firstBatch
    } catch (err) {
      if (!refuses(err)) throw err
      if (!members || ![115, 123, 148, 238].includes(err.code)) throw new Silence('the read is refused', { cause: err })
    }
    this.#members = false
    return await this.#find(template, marks, call)
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
    const patient = () => Math.min(mono() + patience, begun + maxWait)
    const call = newCall({ signal, until: patient() })
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
        call.until = patient()
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
        if (!own) checkLimits(image)
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
  #over = false // its time was up
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

  // isOver says that the time was up: somebody may have seen that, and the lease is not valid again.
  #isOver() {
    return (this.#over ||= this.#timeLeft() <= 0)
  }

  /** How long the lock is held for certain, in ms. */
  remaining() {
    return this.#ended || this.#lost || this.#isOver() ? 0 : this.#timeLeft()
  }
  valid() {
    return this.remaining() > 0
  }

  #check() {
    if (this.#lost) throw this.#lost
    if (this.#ended) throw new LostError('doclock: release was called')
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

  /** Extends the lease by its TTL, unless its time is up. */
  async renew() {
    this.#checkTime()
    const call = newCall({ timeLeft: () => this.remaining() })
    const { image, sent } = await this.#settle(fill(commands.renew, this.#marks), call, 'renewal').catch((err) => {
      this.#checkTime()
      throw err
    })
    this.#check() // after a release its answer says nothing
    if (image === null) throw this.#lose('')
    this.#checkTime() // the answer may come late
    this.#extend(sent)
    this.#checkTime()
  }

  #checkTime() {
    this.#check()
    if (this.#isOver()) throw new LostError("doclock: the lease's time is up")
  }

  /** Writes the document under the lock: operators, or a pipeline of $set, $addFields and $unset. */
  async update(update, options = {}) {
    known('the options', options, ['arrayFilters'])
    const { arrayFilters = [] } = options
    demand(Array.isArray(arrayFilters) && arrayFilters.every(isPlain), 'arrayFilters must be an array of filters', arrayFilters)
    checkUpdate(update, arrayFilters)
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
    if (number(own?.fence) !== this.fence) {
      if (!call.silent) throw this.#lose(' before its release')
      if (!(await this.#noneTook(call))) throw new UnknownError('doclock: whether the release was executed is unknown')
    }
    this.#released = true
  }

  // noneTook says that nobody but the silent attempt can have removed the entry: its time is not up, and no operator has
  // broken it, as the document shows.
  async #noneTook(call) {
    if (this.#timeLeft() <= 0) return false
    const image = await this.#wire.read(this.#marks['_id…'], call).catch(() => undefined)
    return number(image?.lock?.fence) >= this.fence && !(number(image.lock.broken) >= this.fence)
  }
}
