/** The object storage refused or did not answer. The message says what to do and contains no credential. */
export class ObjectStorageError extends Error {
  override name = "ObjectStorageError";
  /** HTTP status; null: there was no answer. */
  readonly status: number | null;

  constructor(message: string, status: number | null, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}
