// Texts in the accent and on it are readable in every hue of a theme.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import test from 'node:test'

type Rgb = [number, number, number]

const tokens = readFileSync(new URL('../src/kit/tokens.css', import.meta.url), 'utf8')

/** A colour as a browser shows it: values outside of sRGB are cut off. */
function colour(text: string, hue: number): Rgb {
  if (text === '#fff') return [1, 1, 1]
  const [, l = 0, c = 0, h = 0] = (/^oklch\((\S+) (\S+) (\S+)\)$/.exec(text.replace('var(--hue)', `${hue}`)) ?? []).map(
    Number,
  )
  const a = c * Math.cos((h * Math.PI) / 180)
  const b = c * Math.sin((h * Math.PI) / 180)
  const cone = (x: number, y: number) => (l + x * a + y * b) ** 3
  const [m, n, o] = [
    cone(0.3963377774, 0.2158037573),
    cone(-0.1055613458, -0.0638541728),
    cone(-0.0894841775, -1.291485548),
  ]
  const linear = [
    4.0767416621 * m - 3.3077115913 * n + 0.2309699292 * o,
    -1.2684380046 * m + 2.6097574011 * n - 0.3413193965 * o,
    -0.0041960863 * m - 0.7034186147 * n + 1.707614701 * o,
  ]
  return linear.map((part) => Math.min(1, Math.max(0, part))) as Rgb
}

const luminance = ([red, green, blue]: Rgb) => 0.2126 * red + 0.7152 * green + 0.0722 * blue

function contrast(one: Rgb, other: Rgb): number {
  const [low = 0, high = 0] = [luminance(one), luminance(other)].toSorted((x, y) => x - y)
  return (high + 0.05) / (low + 0.05)
}

function token(name: string, look: 0 | 1, hue: number): Rgb {
  const [, light = '', dark = ''] = new RegExp(`--${name}: light-dark\\((.+?(?:\\)|fff)), (.+)\\);`).exec(tokens) ?? []
  return colour([light, dark][look] ?? '', hue)
}

const PAIRS = [
  ...['canvas', 'surface', 'sunken', 'accent-soft'].map((ground) => ['accent', ground]),
  ['on-accent', 'accent'],
  ['text', 'accent-soft'],
  ['muted', 'accent-soft'],
] as [string, string][]

for (const [look, name] of ['light', 'dark'].entries()) {
  test(`${name}: the accent of every hue has a contrast of at least 4.5`, () => {
    for (const [text, ground] of PAIRS) {
      for (let hue = 0; hue <= 360; hue++) {
        const found = contrast(token(text, look as 0 | 1, hue), token(ground, look as 0 | 1, hue))
        assert.ok(found >= 4.5, `${text} on ${ground} at ${hue}: ${found.toFixed(2)}`)
      }
    }
  })
}

test('the measure is that of WCAG', () => {
  assert.equal(contrast([1, 1, 1], [0, 0, 0]), 21)
  assert.ok(Math.abs(luminance(colour('oklch(0.5 0 0)', 0)) - 0.125) < 0.001)
})
