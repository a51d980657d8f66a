// New connections a second, from totals that only grow.

class Rates {
  constructor() {
    this.totals = null;
    this.at = 0;
    this.rates = null;
  }

  /** New totals by name. Rates are those since the totals before; there are none with the first. */
  take(totals, at) {
    if (this.totals) {
      const seconds = Math.max((at - this.at) / 1000, 0.001);
      this.rates = new Map();
      for (const [name, total] of totals) {
        this.rates.set(name, Math.max(total - (this.totals.get(name) ?? 0), 0) / seconds);
      }
    }
    this.totals = totals;
    this.at = at;
  }

  /** `null` while nothing is known. */
  of(name) {
    return this.rates ? this.rates.get(name) ?? 0 : null;
  }

  sum() {
    return this.rates ? [...this.rates.values()].reduce((sum, it) => sum + it, 0) : null;
  }
}
