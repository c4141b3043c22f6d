// The rules, the caller's input and the commands of docs/layout.md. Nothing here talks to the server.
import { readFileSync } from 'node:fs'
import { BSON } from 'mongodb'

// ---- Bad input

// text is a value in an error. It comes from the caller or from the document, and steers no terminal.
export const text = (value) => {
  const escape = (c) => Array.from({ length: c.length }, (_, i) => `\\u${c.charCodeAt(i).toString(16).padStart(4, '0')}`).join('')
  const quoted = () => (typeof value === 'string' ? JSON.stringify(value) : String(value))
  try { return quoted().replace(/[\p{C}\p{Zl}\p{Zp}]/gu, escape) } catch { return typeof value }
}
export const demand = (holds, rule, value) => {
  if (!holds) throw new TypeError(`doclock: ${rule}; it is ${text(value)}`)
}
export function whole(name, value, least, most = 2 ** 31 - 1) {
  demand(Number.isInteger(value) && value >= least && value <= most, `${name} must be a whole number from ${least} to ${most}`, value)
  return value
}
export const isPlain = (v) => typeof v === 'object' && v !== null && [Object.prototype, null].includes(Object.getPrototypeOf(v))
export const known = (name, options, names) => {
  demand(isPlain(options), `${name} must be an object`, options)
  for (const key of Object.keys(options)) demand(names.includes(key), `${name} must be among ${names.join(', ')}`, key)
}
// queryOf makes the filter of a document. An operator would match other documents than the one that it names.
export const queryOf = (id) => {
  const bad = id === undefined || ['function', 'symbol'].includes(typeof id) || Array.isArray(id) || id instanceof RegExp ||
    id instanceof Map || id?._bsontype === 'BSONRegExp' || (isPlain(id) && Object.keys(id).some((key) => key.startsWith('$')))
  demand(!bad, 'id must be the value of _id; no operator, array or regular expression', id)
  return copy({ _id: id })
}
// copy takes a value's bytes: whoever changes the value later does not change the repeats of a command.
const exact = { promoteValues: false, promoteBuffers: false, bsonRegExp: true }
export const copy = (document) => BSON.deserialize(BSON.serialize(document, { ignoreUndefined: false }), exact)

// checkUpdate checks a caller's update. It must not touch the lock, nor take a position from it.
export const checkUpdate = (update, arrayFilters) => {
  const check = (paths) => paths.forEach((path) => {
    demand(typeof path === 'string', 'a field must have a text as its name', path)
    const segments = path.split('.')
    demand(segments[0] !== 'lock', 'an update must not touch the field lock', path)
    demand(!segments.includes('$'), "no path may be positional, as the server may take the position from the lock's array; use an array filter, as in items.$[item]", path)
  })
  if (!Array.isArray(update)) {
    demand(isPlain(update) && Object.keys(update).length > 0, 'an update must be operators, as { $set: … }, or a pipeline', update)
    for (const [name, fields] of Object.entries(update)) {
      demand(name.startsWith('$'), 'an update must be operators, as { $set: … }; no document that replaces', name)
      demand(isPlain(fields), `${name} must have fields`, fields)
      check([...Object.keys(fields), ...(name === '$rename' ? Object.values(fields) : [])])
    }
    return
  }
  demand(update.length > 0, 'a pipeline must have a stage', update)
  demand(arrayFilters.length === 0, 'a pipeline takes no array filters; use $map and $filter', arrayFilters)
  for (const stage of update) {
    const [name] = isPlain(stage) && Object.keys(stage).length === 1 ? Object.keys(stage) : []
    demand(['$set', '$addFields', '$unset'].includes(name), 'a stage must be $set, $addFields or $unset: others can drop the lock', name)
    demand(name === '$unset' || isPlain(stage[name]), `${name} must have fields`, stage[name])
    check(name === '$unset' ? [stage.$unset].flat() : Object.keys(stage[name]))
  }
}

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
export const relationsOf = (rules) => {
  demand(isPlain(rules) && Object.keys(rules).length > 0, 'rules must be one of the presets, as presets.fair', rules)
  const tags = Object.keys(rules).sort()
  return new Map(tags.map((tag) => {
    demand(/^[A-Za-z0-9_-]{1,64}$/.test(tag), 'a tag must consist of 1 to 64 letters, digits, _ and -', tag)
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

// ---- Commands, filled in from the page's JSON

export const { parts, ...commands } = BSON.EJSON.parse(
  readFileSync(new URL('./layout-commands.json', import.meta.url), 'utf8'), { relaxed: false })

// fill puts values in the place of marks. It never looks into a value: an owner may contain "<id>".
export const fill = (template, marks) => {
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
export const composeAcquire = (rules, marks, wait) => {
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
export const composeConfirm = (rules, marks) => {
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
export const composeWrite = (update, arrayFilters, marks) => {
  if (Array.isArray(update)) return fill(commands['write, pipeline'], { ...marks, 'stages…': update })
  const command = fill(commands['write, operators'], { ...marks, 'operators…': {} })
  const merged = Object.entries(command.update).map(([name, own]) => ({ [name]: fields([update[name] ?? {}, own]) }))
  return { ...command, update: fields([update, ...merged]), arrayFilters: [...arrayFilters, ...command.arrayFilters] }
}
