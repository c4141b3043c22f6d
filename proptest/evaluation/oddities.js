// Values of unexpected types.
import { BSONRegExp, Decimal128, Double, Int32, Long, MaxKey, MinKey, ObjectId, Timestamp } from 'bson';

const plain = [
  null, 'x', '', true, false, {}, { a: new Int32(1) }, [], [new Int32(1)], new Date(1),
  new Int32(5), new Int32(0), new Double(1.5), Long.fromNumber(7),
];

const numbers = [
  new Double(NaN), new Double(Infinity), new Double(-Infinity), new Double(1e300), new Double(-1e300), new Double(-0), new Double(-0.5),
  new Double(2 ** 53), new Double(2 ** 53 - 1), new Double(2 ** 63), new Double(9.2e18), new Int32(2 ** 31 - 1), new Int32(-5),
  Long.MAX_VALUE, Long.MAX_VALUE.sub(1), Long.MIN_VALUE, Long.fromBigInt(2n ** 53n), Long.fromBigInt(2n ** 53n - 1n), Long.fromNumber(-1),
  Decimal128.fromString('12.5'), Decimal128.fromString('0'), Decimal128.fromString('NaN'), Decimal128.fromString('Infinity'),
  Decimal128.fromString('9007199254740991.5'), Decimal128.fromString('1E+6000'), Decimal128.fromString('-1E-6000'),
];

const others = [
  new Timestamp({ t: 5, i: 1 }), new MinKey(), new MaxKey(), new BSONRegExp('a', 'i'), new ObjectId('0123456789abcdef01234567'),
];

export const odd = (r, wild) => (wild && r.chance(0.6) ? oddNumber(r, r.chance(0.3)) : r.pick(plain));
export const oddNumber = (r, other = false) => r.pick(other ? others : numbers);
