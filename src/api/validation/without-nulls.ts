/** Returns the fields of a body that have a value: clients send null for a field that they leave alone. */
export function withoutNulls<B extends object>(body: B): { [Field in keyof B]: NonNullable<B[Field]> } {
  const entries = Object.entries(body).filter(([, value]) => value !== null && value !== undefined);
  return Object.fromEntries(entries) as { [Field in keyof B]: NonNullable<B[Field]> };
}
