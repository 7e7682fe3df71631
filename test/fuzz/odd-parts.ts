import fc from "fast-check";

const words = (text: string) => text.split(" ");
const encoded = (text: string) => encodeURIComponent(text.toWellFormed());

/** Names of query parameters: some are known to many operations, some to none. */
export const parameter = fc.constantFrom(
  ...words(
    "limit offset page_size cursor type order level status name name_contains deployment_ids force url agent_id",
  ),
  ...words("deployment_type remote_reconciled start_time end_time tag_value_ids __proto__ toString a[b]"),
  "",
);

/** Their values, encoded for a query. */
export const oddValue = fc.oneof(
  fc.string({ unit: "binary" }).map(encoded),
  fc.constantFrom(
    ...words("% %zz %00 %ff%fe + -1 1e3 %F0%9F%98%80 %ED%A0%80 a%26b%3Dc 2026-13-45 build deploy 1 0 true"),
    "",
  ),
  fc.constantFrom(
    ...words("DESC asc %27%3B-- , ,,, 00000000-0000-4000-8000-000000000000"),
    "9".repeat(50),
    "x".repeat(2_000),
  ),
);

/** Path segments. */
export const segment = fc.oneof(
  fc.constantFrom(
    ...words(". .. %2e%2e %2F %5C %00 % %zz %ff * :id {id} __proto__ constructor v2 deployments revisions"),
    "",
  ),
  fc.constantFrom(
    ...words("null undefined free-count %F0%9F%98%80 ; a;b ~ @ -1 admin api-host api v1 d dp auth"),
    "x".repeat(3_000),
  ),
  fc.uuid(),
  fc.string({ unit: "binary", maxLength: 12 }).map(encoded),
);

export const headerName = fc.constantFrom(
  ...words("content-type x-tenant-id x-organization-id authorization x-api-key x-request-id idempotency-key if-match"),
  ...words(
    "if-none-match accept accept-encoding accept-language x-forwarded-proto x-forwarded-for range origin cookie",
  ),
  ...words("x-pierhead-epoch last-event-id content-encoding"),
);

/** Removes what a header cannot contain: everything but Latin-1 without control characters. */
export const headerText = (text: string) => text.replaceAll(/[^\t\x20-\x7e\x80-\xff]/g, "").trim();

export const headerValue = fc.oneof(
  fc.string({ unit: "binary" }).map(headerText),
  fc.constantFrom(
    ...words("* */* null text/plain application/x-www-form-urlencoded multipart/form-data application/json; / ;"),
    "",
  ),
  fc.constantFrom(
    "application/json; charset=latin1",
    "Bearer  ",
    "Basic YTpi",
    "bearer x",
    "Digest a=b",
    "\xe9\xff",
    'W/"x"',
    '"',
  ),
  fc.constantFrom(...words("Bearer 1 -1 gzip bytes=0-1 a,b"), "9".repeat(30), "x".repeat(4_000)),
);
