// The counts, and the output at the end.
import { EJSON } from 'bson';
import { first } from './comparison.js';

const shown = 3; // examples of one disagreement

export class Report {
  constructor({ seed, only, eager }, commands) {
    this.seed = seed;
    this.only = only;
    this.eager = eager;
    this.commands = commands;
    this.cases = 0;
    this.outcomes = new Map();
    this.tables = new Map();
    this.opinions = new Map();
    this.reasons = new Map();
    this.disagreements = new Map();
  }

  counted(c, expected) {
    this.cases++;
    add(this.tables, c.table);
    add(this.outcomes, `${c.kind}: ${outcome(c, expected)}`);
  }

  asked(name) { add(this.opinions, name); }
  differs(name, why) { add(this.reasons, `${name}: ${why}`); }

  disagrees(c, name, difference, expected, found) {
    const key = `${name}, ${c.kind}: ${difference}`;
    const examples = this.disagreements.get(key) ?? [];
    this.disagreements.set(key, [...examples, { c, difference, expected, found }]);
  }

  get agrees() { return this.disagreements.size === 0; }

  text() {
    const lines = [`evaluation: seed ${this.seed}, ${this.cases} cases of ${this.commands.length} commands${this.eager ? ', both branches of $cond evaluated' : ''}`];
    const section = (title, counts) => {
      if (counts.size > 0) lines.push('', title, ...[...counts].sort().map(([name, n]) => `${String(n).padStart(8)}  ${name}`));
    };
    section('cases of each table of rules', this.tables);
    section('outcomes', this.outcomes);
    section('compared with this evaluator', this.opinions);
    section('known differences, see differences.js', this.reasons);
    section('DISAGREEMENTS', new Map([...this.disagreements].map(([key, examples]) => [key, examples.length])));
    for (const [key, examples] of this.disagreements) lines.push('', key, ...examples.slice(0, shown).map((e) => this.example(e)));
    if (this.agrees) lines.push('', 'no disagreement');
    return lines.join('\n');
  }

  example({ c, difference, expected, found }) {
    const show = (v) => (v === undefined ? 'none' : EJSON.stringify(v, { relaxed: false }));
    const lines = [`  case ${c.i}, ${c.table}.${c.tag}, at ${c.now.toISOString()}; by itself: -seed ${this.seed} -only ${c.i}`];
    if (difference.startsWith('document')) lines.push(`      ${first(found.doc, expected.doc)}`);
    if (difference.startsWith('image')) lines.push(`      ${first(found.image, expected.image)}`);
    if (this.only) lines.push(...Object.entries({ command: c.command, document: c.doc, expected, found }).map(([name, v]) => `      ${name}: ${show(v)}`));
    return lines.join('\n');
  }
}

const add = (counts, name) => counts.set(name, (counts.get(name) ?? 0) + 1);

// outcome is the outcome of a case, as far as the document shows it.
function outcome(c, { error, doc, matched }) {
  if (error) return `raises ${error.code}`;
  if (!matched) return 'no document matches';
  if (c.command.find) return 'found';
  if (!doc) return 'deleted';
  return EJSON.stringify(doc, { relaxed: false }) === EJSON.stringify(c.doc, { relaxed: false }) ? 'nothing changed' : 'changed';
}
