/** The embedded database was reopened while a query ran. Whether that query took effect is unknown; a new one works. */
export class DatabaseRestarted extends Error {
  override readonly name = "DatabaseRestarted";
  readonly isRetryable = true;
}

/** The database cannot be used as it is; the message says what to do about it. Trying again does not help. */
export class DatabaseUnusable extends Error {
  override readonly name = "DatabaseUnusable";
}

/** @param constraint narrows the answer to one unique constraint or index, by name. */
export function isUniqueViolation(error: unknown, constraint?: string): boolean {
  if (sqlState(error) !== "23505") return false;
  return constraint === undefined || (error as { constraint?: string }).constraint === constraint;
}

/** serialization_failure and deadlock_detected: PostgreSQL undid everything, so the same again is safe. */
export function isConflict(error: unknown): boolean {
  const state = sqlState(error);
  return state === "40001" || state === "40P01";
}

function sqlState(error: unknown): string | undefined {
  return error instanceof Error ? (error as { code?: string }).code : undefined;
}
