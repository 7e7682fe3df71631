/** Shorter values are ordinary words in a log, not secrets. */
const lengthMin = 6;

/**
 * Returns a text without these secrets. Of two that begin alike the longer one counts. The lines of one that has several, such as a
 * private key, are masked one by one, because the text may begin in the middle of it.
 */
export function maskValues(text: string, secrets: readonly string[]): string {
  const values = [...new Set(secrets)].filter(({ length }) => length >= lengthMin).sort((a, b) => b.length - a.length);
  const whole = values.reduce((rest, value) => rest.replaceAll(value, mask), text);
  const parts = new Set(values.filter((value) => value.includes("\n")).flatMap((value) => linesOf(value)));
  if (parts.size === 0) return whole;
  const masked = (line: string) => (line.trim().length >= lengthMin && parts.has(line.trim()) ? mask : line);
  return whole.split("\n").map(masked).join("\n");
}

const mask = "***";
const linesOf = (value: string) => value.split("\n").map((line) => line.trim());
