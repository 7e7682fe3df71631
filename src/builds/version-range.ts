/** The major, minor and patch number of a version. Pre-releases count as their release. */
type Version = readonly [number, number, number];

/**
 * Returns whether a version is in an npm range. It reads the forms that packages declare for their peers: `^1.2.3`, `~1.2.3`,
 * comparisons, exact versions, `x` and `*`, combined by spaces and `||`. A pre-release counts as its release, so that
 * `1.0.0-alpha.3` fits `^1.0.0`.
 */
export function isInRange(version: string, range: string): boolean {
  const found = parse(version);
  return range.split("||").some((part) => {
    const comparators = part.replaceAll(/([<>=^~]+)\s+/g, "$1").split(/\s+/);
    return comparators.filter((one) => one !== "").every((comparator) => fits(found, comparator));
  });
}

function fits(found: Version, comparator: string): boolean {
  const [, operator = "", text = ""] = /^(\^|~|>=|<=|>|<|=)?v?(.*)$/.exec(comparator) ?? [];
  if (/^[x*]?$/i.test(text)) return true;
  const given =
    text
      .split(/[-+]/)[0]
      ?.split(".")
      .filter((part) => !/^[x*]$/i.test(part)) ?? [];
  const bound = parse(text);
  switch (operator) {
    case "^":
      return compare(found, bound) >= 0 && compare(found, afterCaret(bound)) < 0;
    case "~":
      return compare(found, bound) >= 0 && compare(found, after(bound, given.length === 1 ? 1 : 2)) < 0;
    case ">=":
      return compare(found, bound) >= 0;
    case "<=":
      return compare(found, bound) <= 0;
    case ">":
      return compare(found, bound) > 0;
    case "<":
      return compare(found, bound) < 0;
    default:
      return compare(found, bound) >= 0 && compare(found, after(bound, given.length)) < 0;
  }
}

/** Compares the numbers of two versions, for sorting. */
export function compareVersions(a: string, b: string): number {
  return compare(parse(a), parse(b));
}

function parse(text: string): Version {
  const [major = 0, minor = 0, patch = 0] = (text.split(/[-+]/)[0] ?? "").split(".").map((part) => Number(part) || 0);
  return [major, minor, patch];
}

function compare(a: Version, b: Version): number {
  return a[0] - b[0] || a[1] - b[1] || a[2] - b[2];
}

/** A caret keeps the leftmost number that is not 0. */
function afterCaret(bound: Version): Version {
  if (bound[0] > 0) return after(bound, 1);
  return after(bound, bound[1] > 0 ? 2 : 3);
}

/** Returns the first version whose leading `count` numbers differ. */
function after([major, minor, patch]: Version, count: number): Version {
  if (count <= 1) return [major + 1, 0, 0];
  return count === 2 ? [major, minor + 1, 0] : [major, minor, patch + 1];
}
