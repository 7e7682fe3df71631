/**
 * Parses ISO 8601 (`T` or a space between date and time; time and zone are optional), or seconds or milliseconds since
 * 1970. Without a zone it is UTC. The error texts are those of the original API's parser (contract 1.5).
 *
 * @returns UTC with six fractional digits, years 0001 to 9999.
 */
export function readTimestamp(input: string | number): { timestamp: string } | { error: string } {
  const moment = typeof input === "number" || epochText.test(input) ? readEpoch(Number(input)) : readCalendar(input);
  if (typeof moment === "string") return { error: moment };
  const date = new Date(moment.seconds * 1_000);
  const year = date.getUTCFullYear();
  if (!(year >= 1 && year <= 9999)) return { error: `year ${year} is out of range` };
  const micros = String(moment.micros).padStart(6, "0");
  return { timestamp: `${date.toISOString().slice(0, 19)}.${micros}Z` };
}

interface Moment {
  /** Since 1970, rounded down. */
  seconds: number;
  micros: number;
}

/**
 * Digits before or after the point. The alternatives exclude each other, because overlapping ones would backtrack on
 * long texts.
 */
const epochText = /^[+-]?(\d+(\.\d*)?|\.\d+)$/;

/** Larger numbers are milliseconds: as seconds they would be after the year 2603. */
const secondsMax = 20_000_000_000;
const lastSecond = Date.UTC(9999, 11, 31, 23, 59, 59) / 1_000;
const firstSecond = new Date("0000-01-01T00:00:00Z").getTime() / 1_000;

function readEpoch(number: number): Moment | string {
  const seconds = Math.abs(number) > secondsMax ? number / 1_000 : number;
  if (seconds > lastSecond) return "dates after 9999 are not supported as unix timestamps";
  if (!(seconds >= firstSecond)) return "dates before 0000 are not supported as unix timestamps";
  const microsOfAll = Math.round((seconds - Math.floor(seconds)) * 1_000_000);
  return { seconds: Math.floor(seconds) + Math.floor(microsOfAll / 1_000_000), micros: microsOfAll % 1_000_000 };
}

/** The sign of the zone may be a typographic minus. */
const timeText = /^[Tt _](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?(?:([Zz])|([+\u2212-])(\d\d):?(\d\d))?$/;

function readCalendar(text: string): Moment | string {
  const day = readDay(text);
  if (typeof day === "string" || text.length === 10) return day;
  const match = timeText.exec(text.slice(10));
  if (match === null) return trailing;
  const [, hour, minute, second = "0", fraction = "", , sign, zoneHour = "0", zoneMinute = "0"] = match;
  const zone = Number(zoneHour) * 60 + Number(zoneMinute);
  const isTime = Number(hour) < 24 && Number(minute) < 60 && Number(second) < 60;
  if (!isTime || Number(zoneMinute) > 59 || zone >= 24 * 60) return trailing;
  const ahead = sign === undefined ? 0 : sign === "+" ? zone : -zone;
  const seconds = day.seconds + Number(hour) * 3_600 + (Number(minute) - ahead) * 60 + Number(second);
  return { seconds, micros: Number(fraction.slice(0, 6).padEnd(6, "0")) };
}

const trailing = "unexpected extra characters at the end of the input";

/** Parses the first ten characters from left to right, so that the first mistake is reported. */
function readDay(text: string): Moment | string {
  if (text.length < 10) return "input is too short";
  if (!/^\d{4}/.test(text)) return "invalid character in year";
  if (text[4] !== "-") return separator;
  if (!/^\d\d/.test(text.slice(5))) return "invalid character in month";
  if (text[7] !== "-") return separator;
  if (!/^\d\d/.test(text.slice(8))) return "invalid character in day";
  const [year, month, day] = [Number(text.slice(0, 4)), Number(text.slice(5, 7)), Number(text.slice(8, 10))];
  if (month < 1 || month > 12) return "month value is outside expected range of 1-12";
  const date = new Date(`${text.slice(0, 7)}-01T00:00:00Z`);
  date.setUTCDate(day);
  if (day < 1 || date.getUTCMonth() !== month - 1) return "day value is outside expected range";
  if (year === 0) return "year 0 is out of range";
  return { seconds: date.getTime() / 1_000, micros: 0 };
}

const separator = "invalid date separator, expected `-`";
