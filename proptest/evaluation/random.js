// Random numbers that depend only on a seed and a case's number, so that each
// case can be drawn again by itself.
export class Random {
  #state;

  constructor(seed, number) { this.#state = (Math.imul(seed, 0x9e3779b1) ^ Math.imul(number + 1, 0x85ebca6b)) >>> 0; }

  // next is mulberry32.
  next() {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let x = this.#state;
    x = Math.imul(x ^ (x >>> 15), x | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  }

  below(n) { return Math.floor(this.next() * n); }
  chance(p) { return this.next() < p; }
  pick(list) { return list[this.below(list.length)]; }
  list(n, make) { return Array.from({ length: n }, make); }

  shuffled(list) {
    const all = [...list];
    for (let i = all.length - 1; i > 0; i--) {
      const j = this.below(i + 1);
      [all[i], all[j]] = [all[j], all[i]];
    }
    return all;
  }
}
