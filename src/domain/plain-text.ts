/**
 * Reports whether a text of another server is without control characters and halves of surrogate pairs. JSON may contain both.
 * PostgreSQL stores no NUL, and no such half in JSON.
 */
export const isPlainText = (text: string): boolean => !/[\p{Cc}\p{Cs}]/u.test(text);
