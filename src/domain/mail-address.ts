/**
 * One spelling of a mail address, in whatever case it was written. Four letters stay as they are, whose lower case is that
 * of another letter: the Kelvin sign would be read as a `k`, and who has one in an address as somebody else.
 */
export const mailAddress = (text: string): string =>
  text.replaceAll(/[^\u212a\u212b\u2126\u03f4]+/gu, (part) => part.toLowerCase());
