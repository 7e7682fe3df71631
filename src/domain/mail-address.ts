/**
 * Returns a mail address in lower case. Four characters stay, because their lower case is another letter: the Kelvin sign,
 * for example, would become a `k`, and one person could sign in as another.
 */
export const mailAddress = (text: string): string =>
  text.replaceAll(/[^\u212a\u212b\u2126\u03f4]+/gu, (part) => part.toLowerCase());
