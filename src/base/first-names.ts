/** Lists at most `max` names, and says how many more there are: `a, b and 3 more`. Long lists make a message unreadable. */
export const firstNames = (names: readonly string[], max: number): string =>
  names.slice(0, max).join(", ") + (names.length > max ? ` and ${names.length - max} more` : "");
