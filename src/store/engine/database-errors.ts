/** The embedded database was reopened while a query ran. It is unknown whether that query took effect; a new one works. */
export class DatabaseRestarted extends Error {
  override readonly name = "DatabaseRestarted";
  readonly isRetryable = true;
}

/** The database cannot be used in its present state. The message says what to do; retrying does not help. */
export class DatabaseUnusable extends Error {
  override readonly name = "DatabaseUnusable";
}

/** Reports serialization_failure and deadlock_detected: PostgreSQL rolled everything back, so a retry is safe. */
export function isConflict(error: unknown): boolean {
  const state = sqlState(error);
  return state === "40001" || state === "40P01";
}

/** Returns PostgreSQL's five-character code of an error (PostgreSQL documentation, appendix A). */
export function sqlState(error: unknown): string | undefined {
  return error instanceof Error ? (error as { code?: string }).code : undefined;
}
