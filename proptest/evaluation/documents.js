// Random documents for a command: locks of all shapes, in all states, and
// malformed ones.
import { Binary, Double, Int32, Long } from 'bson';
import { odd, oddNumber } from './oddities.js';
import { isObject } from './values.js';

// The subjects of the stored commands: the own entry and its fence, and the
// successor's entry.
const own = new Binary(Buffer.from('11111111222243338444555555555555', 'hex'), 4);
const successor = new Binary(Buffer.from('66666666777748889999000000000000', 'hex'), 4);
export const epoch = new Date(Date.UTC(2030, 5, 1, 12));
const ownFence = Long.fromNumber(epoch.getTime());

// The share of documents with the own entry.
const present = { acquire: 0.35, 'acquire, with the document': 0.35, try: 0.3, confirm: 0.9, standing: 0.5, read: 0.5 };

// document draws a document for a command of this kind, as of now.
export function document(r, { kind, tag, tags }, id, now) {
  const draw = new Drawing(r, { kind, tag, tags, now: now.getTime(), wild: r.chance(0.4) });
  const lock = draw.lock();
  const fields = Object.entries(draw.users()).concat(lock === undefined ? [] : [['lock', lock]]);
  return Object.fromEntries([['_id', id], ...(r.chance(0.2) ? r.shuffled(fields) : fields)]);
}

class Drawing {
  constructor(r, about) { Object.assign(this, { r, ...about }); }

  odd() { return odd(this.r, this.wild); }
  uuid() { return new Binary(Buffer.from(this.r.list(16, (_, i) => (i === 6 ? 0x4a : i === 8 ? 0x8a : this.r.below(256)))), 4); }

  // users are the user's own fields; some have the library's names and texts.
  users() {
    const { r } = this;
    const fields = {};
    if (r.chance(0.7)) fields.n = new Int32(r.below(10));
    if (r.chance(0.3)) fields.name = r.pick(['x', '$lock', '$$ROOT']);
    if (r.chance(0.2)) fields['a b'] = [new Int32(1), { z: null, lock: { tags: new Int32(1) } }];
    if (r.chance(0.2)) fields.region = r.pick(['eu', null, new Int32(1)]);
    if (r.chance(0.05)) fields[r.pick(['__doclockNow', '__doclockDoc'])] = r.pick([new Int32(1), [{ now: new Int32(1) }], { now: 'x' }, null]);
    return fields;
  }

  lock() {
    const { r } = this;
    const form = r.next();
    if (form < 0.03) return undefined;
    if (form < 0.04) return null;
    if (form < 0.08) return r.pick([this.odd(), [{ tags: { [this.tag]: [] } }], [{ tags: { [this.tag]: [this.ownEntry()] } }]]);
    if (form < 0.11) return r.pick([{}, { brand: 'x' }, { tags: {} }, { fence: null, tags: null }, { fence: ownFence }, { tags: this.odd() }]);
    if (form < 0.13) return { tags: { [r.pick(this.tags)]: this.oddEntries() } };
    if (form < 0.18 && this.wild) return { fence: oddNumber(r), tags: this.entries() };
    return this.kind === 'write and hand off, classic' && r.chance(0.5) ? this.lonely() : this.usual();
  }

  oddEntries() {
    const entry = this.ownEntry();
    return this.r.pick([this.odd(), [null], [new Int32(5), 'x'], [{}], [[]], [[{ id: own }]], { id: [own] }, entry, [[entry]], [entry, this.odd()]]);
  }

  // lonely is a lock with only the own entry, as a compare-and-set needs it.
  lonely() {
    return { fence: ownFence, tags: { [this.tag]: [this.ownEntry()] }, ...this.done() };
  }

  usual() {
    const { r } = this;
    const fields = { tags: this.entries(), ...this.done() };
    if (r.chance(0.95)) fields.fence = this.fence();
    if (r.chance(0.1)) fields.brand = 'x';
    if (r.chance(0.8)) fields.v = r.chance(0.9) ? new Int32(1) : r.pick([new Int32(2), this.odd()]); // mingo needs one
    return Object.fromEntries(r.shuffled(Object.entries(fields)));
  }

  done() {
    const { r } = this;
    if (r.chance(0.6)) return {};
    return { done: r.chance(0.03) ? this.odd() : r.list(r.pick([0, 1, 7, 8, 9]), () => this.uuid()) };
  }

  fence() {
    const { r } = this;
    const n = r.pick([1, 200, ownFence.toNumber(), this.now, this.now + 1000]);
    if (r.chance(0.9)) return Long.fromNumber(n);
    return r.pick([new Double(n), new Double(n + 0.5), new Int32(n % 100_000), this.odd()]);
  }

  // entries are those of all tags; some have unknown tags.
  entries() {
    const { r } = this;
    this.live = r.pick([0, 0.1, 0.5, 1, 1]);
    this.held = r.pick([0, 0.3, 1]);
    const wanted = r.chance(present[this.kind] ?? 0.92);
    const names = this.tags.filter((tag) => (tag === this.tag && wanted ? r.chance(0.97) : r.chance(0.6)));
    if (r.chance(0.2)) names.push(r.pick(['other', 'c-1', ...this.tags.flatMap((tag) => [tag.toUpperCase(), tag.toLowerCase(), `${tag}\n`])]));
    const tags = Object.fromEntries(r.shuffled([...new Set(names)]).map((name) => [name, r.list(r.pick([0, 0, 1, 1, 1, 2, 3, 5]), () => this.entry())]));
    if (wanted && tags[this.tag]) tags[this.tag] = this.withOwn(tags[this.tag]);
    if (r.chance(0.03) && names.length > 0) tags[r.pick(names)].push(this.odd());
    if (r.chance(0.03)) tags[r.pick([...names, 'other'])] = r.pick([null, this.odd()]);
    return tags;
  }

  withOwn(entries) {
    const { r } = this;
    const all = r.chance(0.5) ? [this.ownEntry()] : r.shuffled([this.ownEntry(), ...entries]);
    if (r.chance(0.02)) all.push(this.ownEntry());
    if (this.kind.includes('hand') && r.chance(this.kind.includes('waiting') ? 0.8 : 0.1)) {
      all.splice(r.below(3), 0, this.entry({ id: successor, held: r.chance(0.2), live: r.chance(0.8) }));
    }
    return all;
  }

  ownEntry() {
    const { r } = this;
    const held = r.chance(this.kind === 'confirm' ? 0.25 : 0.95);
    return this.entry({ id: own, held, live: r.chance(0.7), fence: r.chance(0.95) ? ownFence : undefined });
  }

  entry({ id = this.uuid(), held = this.r.chance(this.held), live = this.r.chance(this.live), fence } = {}) {
    const { r } = this;
    const seq = ownFence.toNumber() - 1000 + r.below(60);
    const entry = { id, owner: r.pick(['h/1', '$x', '$$NOW', 'a.b', 'é']), seq: Long.fromNumber(seq) };
    if (held) entry.fence = fence ?? Long.fromNumber(seq + 500);
    entry.since = new Date(this.now - r.below(9000));
    entry.expires = new Date(this.now + (live ? r.pick([1, 3000, 8000, 60_000]) + r.below(9000) : r.chance(0.2) ? 0 : -1 - r.below(9000)));
    if (r.chance(0.15)) entry.n = Long.fromNumber(r.below(3));
    if (r.chance(0.03)) entry.extra = { x: new Int32(1) };
    if (r.chance(this.wild ? 0.2 : 0.05)) this.damage(entry);
    return r.chance(0.1) ? Object.fromEntries(r.shuffled(Object.entries(entry))) : entry;
  }

  damage(entry) {
    const { r } = this;
    const name = r.pick(['id', 'owner', 'seq', 'fence', 'since', 'expires', 'n']);
    if (r.chance(0.4)) delete entry[name];
    else entry[name] = this.odd();
  }
}
