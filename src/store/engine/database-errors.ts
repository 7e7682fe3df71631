/** The embedded database was reopened while a query ran. Whether that query took effect is unknown; a new one works. */
export class DatabaseRestarted extends Error {
  override readonly name = "DatabaseRestarted";
  readonly isRetryable = true;
}

/** The database cannot be used as it is; the message says what to do about it. Trying again does not help. */
export class DatabaseUnusable extends Error {
  override readonly name = "DatabaseUnusable";
}

/** serialization_failure and deadlock_detected: PostgreSQL undid everything, so the same again is safe. */
export function isConflict(error: unknown): boolean {
  const state = sqlState(error);
  return state === "40001" || state === "40P01";
}

/** PostgreSQL's five-character code of an error (its documentation, appendix A). */
export function sqlState(error: unknown): string | undefined {
  return error instanceof Error ? (error as { code?: string }).code : undefined;
}
