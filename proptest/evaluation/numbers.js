// Numbers of all four BSON types, exactly. Here a number is NaN, an infinity,
// or a fraction {top, bottom} of BigInts.
import { Decimal128, Double, Int32, Long } from 'bson';
import { Raised } from './raised.js';

export function exact(v) {
  switch (v._bsontype) {
    case 'Int32': return { top: BigInt(v.value), bottom: 1n };
    case 'Long': return { top: v.toBigInt(), bottom: 1n };
    case 'Double': return ofDouble(v.value);
    default: return ofDecimal(v.toString());
  }
}

function ofDouble(x) {
  if (!Number.isFinite(x)) return x;
  let bottom = 1n;
  for (; !Number.isInteger(x); x *= 2) bottom *= 2n;
  return { top: BigInt(x), bottom };
}

function ofDecimal(text) {
  if (!/\d/.test(text)) return Number(text); // NaN and the infinities
  const [, digits, fraction = '', exponent = '0'] = /^(-?\d+)(?:\.(\d+))?(?:E([+-]?\d+))?$/.exec(text);
  const shift = Number(exponent) - fraction.length;
  const top = BigInt(digits + fraction);
  return shift < 0 ? { top, bottom: 10n ** BigInt(-shift) } : { top: top * 10n ** BigInt(shift), bottom: 1n };
}

const isFinite = (n) => typeof n === 'object';
const signOf = (n) => (n < 0 ? -1 : n > 0 ? 1 : 0);

// compare orders NaN before all other numbers, and equal to itself.
export function compare(a, b) {
  const [x, y] = [exact(a), exact(b)];
  if (isFinite(x) && isFinite(y)) return signOf(x.top * y.bottom - y.top * x.bottom);
  if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(y) - Number.isNaN(x);
  return signOf((isFinite(x) ? 0 : x) - (isFinite(y) ? 0 : y)) || 0;
}

export function isZero(v) {
  const n = exact(v);
  return isFinite(n) && n.top === 0n;
}

// add is $add of numbers: its type is that of the widest operand, and a double
// if longs overflow.
export function add(a, b) {
  const types = [a._bsontype, b._bsontype];
  const [x, y] = [exact(a), exact(b)];
  if (types.includes('Decimal128')) {
    if (!isFinite(x) || !isFinite(y)) return Decimal128.fromString(String((isFinite(x) ? 0 : x) + (isFinite(y) ? 0 : y)));
    return decimal({ top: x.top * y.bottom + y.top * x.bottom, bottom: x.bottom * y.bottom });
  }
  if (types.includes('Double')) return new Double(Number(a.toString()) + Number(b.toString()));
  const sum = x.top + y.top;
  if (BigInt.asIntN(64, sum) !== sum) return new Double(Number(sum));
  return types.includes('Long') || BigInt.asIntN(32, sum) !== sum ? Long.fromBigInt(sum) : new Int32(Number(sum));
}

// decimal rounds to the 34 digits of the type; digits below 10^-30 don't matter
// here.
function decimal({ top, bottom }) {
  const digits = 30n;
  return Decimal128.fromStringWithRounding(`${(top * 10n ** digits) / bottom}E-${digits}`);
}

export function toLong(v) {
  const n = exact(v);
  if (!isFinite(n)) throw new Raised(241, `Attempt to convert ${n} to a long`);
  const whole = n.top / n.bottom;
  if (BigInt.asIntN(64, whole) !== whole) throw new Raised(241, 'Conversion would overflow a long');
  return Long.fromBigInt(whole);
}
