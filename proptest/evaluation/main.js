// Compares three evaluations of doclock's commands: the server's, this
// directory's, and mingo's.
import { parseArgs } from 'node:util';
import { Int32 } from 'bson';
import * as commands from './commands.js';
import { compare } from './comparison.js';
import { known } from './differences.js';
import { document, epoch } from './documents.js';
import * as mingo from './mingo.js';
import { Random } from './random.js';
import { Report } from './report.js';
import { Server } from './server.js';
import { ignoringCase } from './values.js';

const batch = 200; // documents that are in the collection at a time
const connections = 4;
const disagreement = 2; // the exit code; 1 is a program that failed

const { values: options, positionals: [directory] } = parseArgs({
  allowPositionals: true,
  options: {
    cases: { type: 'string', default: '24000' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string' }, // the number of one case, which is shown in full
    eager: { type: 'boolean', default: false },
  },
});

// draw makes case i: a command, and a document for it.
function draw(all, i) {
  const r = new Random(Number(options.seed), i);
  const now = new Date(epoch.getTime() + r.below(20_000));
  const about = r.pick(all);
  const id = new Int32(i);
  return { i, ...about, now, doc: document(r, about, id, now), command: commands.at(about.command, id, now) };
}

// decides reports whether a kind of command must never raise an error, whatever
// the field holds. The other kinds rely on their filter, or have an update of
// the caller's, and may raise one.
const decides = (kind) => /^(acquire|try|confirm|handoff|standing|read)/.test(kind);

async function judge(c, server, report) {
  const scope = { now: c.now, eager: options.eager };
  const expected = commands.evaluate(c.command, c.doc, scope);
  const answered = { doc: c.stored, ...c.reply };
  report.counted(c, expected);
  if (decides(c.kind) && expected.error) report.disagrees(c, 'this evaluator', `raises ${expected.error.code}, ${expected.error.message}`, expected, expected);
  opinion(c, 'a collation that ignores case', expected, ignoringCase(() => commands.evaluate(c.command, c.doc, scope)), {}, report);
  opinion(c, 'server', expected, answered, { codes: true }, report);
  if (mingo.canTake(c.doc)) {
    const inMingo = { ...expected, doc: mingo.translate(expected.doc), image: mingo.translate(expected.image) };
    opinion(c, 'mingo', inMingo, mingo.evaluate(c.command, c.doc), { order: false }, report);
  }
}

function opinion(c, name, expected, found, how, report) {
  const difference = compare(expected, found, how);
  report.asked(name);
  if (!difference) return;
  const why = known(name, { ...c, difference, expected, found });
  if (why) report.differs(name, why);
  else report.disagrees(c, name, difference, expected, found);
}

async function run(server, report, all, numbers) {
  const cases = numbers.map((i) => draw(all, i));
  await server.insert(cases.map((c) => c.doc));
  const waiting = [...cases];
  await Promise.all(Array.from({ length: connections }, async () => {
    for (let c = waiting.pop(); c; c = waiting.pop()) c.reply = await server.send(c.command);
  }));
  const stored = await server.documents();
  for (const c of cases) await judge({ ...c, stored: stored.get(c.i) }, server, report);
  await server.clear();
}

async function main() {
  const all = commands.read(directory);
  const report = new Report(options, all);
  const server = await Server.connect(process.env.MONGODB_URI, connections);
  try {
    const numbers = options.only ? [Number(options.only)] : [...Array(Number(options.cases)).keys()];
    for (let i = 0; i < numbers.length; i += batch) await run(server, report, all, numbers.slice(i, i + batch));
  } finally {
    await server.close();
  }
  console.log(report.text());
  return report.agrees ? 0 : disagreement;
}

process.exitCode = await main();
