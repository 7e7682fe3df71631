import { type Check, report } from "./validate-walk.ts";

interface Bounds {
  minimum?: number;
  maximum?: number;
}

const whole = "Input should be a valid integer";
const unparsable = `${whole}, unable to parse string as an integer`;
const tooBig = "Unable to parse input string as an integer, exceeded maximum size";

/** Checks integers, also as text (`"7"`, `" +7 "`, `"1_000"`, `"1.0"`) and `true`. */
export function compileInteger(bounds: Bounds): Check {
  return (value, walk) => {
    switch (typeof value) {
      case "number":
        if (Number.isInteger(value)) {
          if (Math.abs(value) >= 2 ** 63) return report(walk, "int_parsing_size", tooBig, value);
          return within(bounds, value, value, walk);
        }
        if (!Number.isFinite(value)) return report(walk, "finite_number", "Input should be a finite number", value);
        return report(walk, "int_from_float", `${whole}, got a number with a fractional part`, value);
      case "string": {
        if (!integerText.test(value)) return report(walk, "int_parsing", unparsable, value);
        if (value.length > integerDigitsMax) return report(walk, "int_parsing_size", tooBig, value);
        // `+ 0` turns -0 into 0.
        return within(bounds, Number(value.trim().replaceAll("_", "")) + 0, value, walk);
      }
      case "boolean":
        return within(bounds, Number(value), value, walk);
      default:
        return report(walk, "int_type", whole, value);
    }
  };
}

const integerText = /^\s*[+-]?\d+(_\d+)*(\.0+)?\s*$/;

/** Python's limit on the digits of a number that it parses. */
const integerDigitsMax = 4_300;

/** Checks numbers, also as text, and booleans as 0 and 1. */
export function compileNumber(bounds: Bounds): Check {
  return (value, walk) => {
    switch (typeof value) {
      case "number":
        return within(bounds, value, value, walk);
      case "string": {
        const parsed = parseNumber(value.trim());
        if (parsed === undefined) {
          const msg = "Input should be a valid number, unable to parse string as a number";
          return report(walk, "float_parsing", msg, value);
        }
        return within(bounds, parsed, value, walk);
      }
      case "boolean":
        return within(bounds, Number(value), value, walk);
      default:
        return report(walk, "float_type", "Input should be a valid number", value);
    }
  };
}

/** Underscores may appear between any two characters, because Python's float parser drops them all. */
function parseNumber(text: string): number | undefined {
  if (/^_|__|_$/.test(text)) return undefined;
  const digits = text.replaceAll("_", "");
  return numberText.test(digits) ? Number(digits) : undefined;
}

/**
 * Digits before or after the point. The alternatives exclude each other, because overlapping ones would backtrack on
 * long texts.
 */
const numberText = /^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i;

function within(bounds: Bounds, value: number, input: unknown, walk: Parameters<Check>[1]): number | undefined {
  if (!Number.isFinite(value)) return report(walk, "finite_number", "Input should be a finite number", input);
  const { minimum, maximum } = bounds;
  if (minimum !== undefined && value < minimum) {
    const msg = `Input should be greater than or equal to ${minimum}`;
    return report(walk, "greater_than_equal", msg, input, { ge: minimum });
  }
  if (maximum !== undefined && value > maximum) {
    const msg = `Input should be less than or equal to ${maximum}`;
    return report(walk, "less_than_equal", msg, input, { le: maximum });
  }
  return value;
}

const truths: ReadonlyMap<string, boolean> = new Map([
  ...["true", "t", "yes", "y", "on", "1"].map((word) => [word, true] as const),
  ...["false", "f", "no", "n", "off", "0"].map((word) => [word, false] as const),
]);

/** Checks booleans, the usual words for them in any case, and the numbers 0 and 1. */
export const checkBoolean: Check = (value, walk) => {
  if (typeof value === "boolean") return value;
  const isWord = typeof value === "string" || (typeof value === "number" && Number.isInteger(value));
  if (!isWord) return report(walk, "bool_type", "Input should be a valid boolean", value);
  const word = truths.get(String(value).toLowerCase());
  if (word !== undefined) return word;
  return report(walk, "bool_parsing", "Input should be a valid boolean, unable to interpret input", value);
};
