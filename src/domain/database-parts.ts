/** A part of the address of a PostgreSQL that a project reads from a variable of its own. */
export type DatabasePart = "host" | "port" | "user" | "password" | "name";

/** The variables of PostgreSQL's own image. A project that names only the host expects the others, too. */
export const usualDatabaseParts: Readonly<Record<string, DatabasePart>> = {
  POSTGRES_HOST: "host",
  ...{ POSTGRES_PORT: "port", POSTGRES_USER: "user", POSTGRES_PASSWORD: "password", POSTGRES_DB: "name" },
};
