// Guesses the encoding of a file: by its byte order mark, by valid UTF-8, else by its letters.

export const ENCODINGS = [
  'utf-8',
  'utf-16le',
  'utf-16be',
  'windows-1252',
  'macintosh',
  'iso-8859-2',
  'windows-1251',
  'shift_jis',
  'gb18030',
  'big5',
  'euc-kr',
] as const
export type Encoding = (typeof ENCODINGS)[number]

type Bytes = Uint8Array<ArrayBuffer>

/** The bytes that a guess reads. */
const SAMPLE = 100_000

export const textOf = (content: Bytes, encoding: Encoding) => new TextDecoder(encoding).decode(content)

/** The encoding by the byte order mark; UTF-8 if the bytes are valid; else a guess. */
export function encodingOf(content: Bytes): Encoding {
  const [first, second] = content
  if (first === 0xff && second === 0xfe) return 'utf-16le'
  if (first === 0xfe && second === 0xff) return 'utf-16be'
  const wide = unmarkedUtf16(content)
  if (wide) return wide
  if (decoded(content, 'utf-8', false) !== undefined) return 'utf-8'
  const sample = content.subarray(0, SAMPLE)
  return eastAsian(sample) ?? western(sample)
}

/** Decodes bytes; undefined if they are invalid. If the bytes are cut, the last character may be incomplete. */
function decoded(content: Bytes, encoding: Encoding, isCut: boolean): string | undefined {
  try {
    return new TextDecoder(encoding, { fatal: true }).decode(content, { stream: isCut })
  } catch {
    return undefined
  }
}

/** UTF-16 without a mark: every other byte of Latin letters is zero. */
function unmarkedUtf16(content: Bytes): Encoding | undefined {
  const sample = content.subarray(0, 4096)
  const zeros = [0, 0]
  for (const [at, byte] of sample.entries()) if (byte === 0) zeros[at % 2] = (zeros[at % 2] ?? 0) + 1
  const [even = 0, odd = 0] = zeros
  const many = sample.length / 5
  if (odd > many && even === 0) return 'utf-16le'
  return even > many && odd === 0 ? 'utf-16be' : undefined
}

/** Frequent characters of an encoding, and their least share of the characters that are not ASCII. */
const FREQUENT: [Encoding, RegExp, number][] = [
  ['shift_jis', /[\u3040-\u30ff]/g, 0.2],
  ['gb18030', /[的一是不在人有我他这中大来上国年日月公司北京海市]/g, 0.15],
  ['big5', /[的一是不在人有我他這中大來上國年日月公司台北市灣]/g, 0.15],
  ['euc-kr', /[\uac00-\ud7a3]/g, 0.8],
]

function eastAsian(sample: Bytes): Encoding | undefined {
  for (const [encoding, frequent, least] of FREQUENT) {
    const text = decoded(sample, encoding, true)
    if (text === undefined) continue
    const others = text.match(/[^\0-\x7f]/gu)?.length ?? 0
    if ((text.match(frequent)?.length ?? 0) >= Math.max(1, least * others)) return encoding
  }
  return undefined
}

/** Matches a sign within a word, and a capital after a small letter. */
const ODD = /(?<=[\p{Ll}\p{Lu}])[^\0-\x7f\p{Ll}\p{Lu}\p{M}\u00a0’–—…”»]|(?<=\p{Ll})(?![A-Z])\p{Lu}/gu

function western(sample: Bytes): Encoding {
  const oddities = (encoding: Encoding) => textOf(sample, encoding).match(ODD)?.length ?? 0
  return oddities('macintosh') < oddities('windows-1252') ? 'macintosh' : 'windows-1252'
}

/** The first bytes of archives (also of spreadsheets and documents), PDF, pictures, old Office files, compressed files, programs. */
const SIGNATURES = [
  'PK\x03\x04',
  '%PDF-',
  '\x89PNG',
  'GIF8',
  '\xff\xd8\xff',
  '\xd0\xcf\x11\xe0',
  '\x1f\x8b',
  '\x7fELF',
  'MZ\x90',
]

/** True if a file is not text in any encoding. */
export function isBinary(content: Bytes): boolean {
  const beginning = String.fromCharCode(...content.subarray(0, 8))
  if (SIGNATURES.some((signature) => beginning.startsWith(signature))) return true
  if (encodingOf(content).startsWith('utf-16')) return false
  const sample = content.subarray(0, SAMPLE)
  const controls = sample.filter((byte) => byte < 9 || (byte > 13 && byte < 26) || (byte > 27 && byte < 32))
  return controls.length * 100 > sample.length
}
