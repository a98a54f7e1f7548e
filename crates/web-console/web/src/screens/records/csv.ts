// Reads and writes comma-separated values (RFC 4180) with any separator. Each row may end with CR LF, LF or CR.

export interface CsvRow {
  /** The line on which it begins, counted from 1. */
  line: number
  cells: string[]
  /** True if a quoted cell has an undoubled quotation mark. */
  isMisquoted: boolean
}

export interface Csv {
  rows: CsvRow[]
  /** The line of a quotation mark after which the end of the row is unknown. */
  brokenAt?: number
}

const lineEnds = (text: string) => text.match(/\r\n|\r|\n/g)?.length ?? 0

/** Reads the cells of a text as they are. A row may have any number of cells; rows of blanks are skipped. */
export function parseCsv(text: string, separator: string, firstLine = 1): Csv {
  const reader = new Reader(text, separator, firstLine)
  const rows: CsvRow[] = []
  while (!reader.isAtEnd()) {
    const row = reader.row()
    if (row === undefined) return { rows, brokenAt: reader.line }
    if (row.cells.some((cell) => cell.trim() !== '')) rows.push(row)
  }
  return { rows }
}

class Reader {
  private readonly text: string
  private readonly separator: string
  private readonly plain: RegExp
  private at = 0
  line: number

  constructor(text: string, separator: string, line: number) {
    this.text = text
    this.separator = separator
    this.plain = new RegExp(`[^${separator.replace(/[\\\]^-]/, '\\$&')}\\r\\n]*`, 'y')
    this.line = line
  }

  isAtEnd = () => this.at >= this.text.length

  /** Reads a row; undefined if its end is unknown. */
  row(): CsvRow | undefined {
    const row: CsvRow = { line: this.line, cells: [], isMisquoted: false }
    for (;;) {
      const cell = this.text[this.at] === '"' ? this.quotedCell(row) : this.plainCell()
      if (cell === undefined) return undefined
      row.cells.push(cell)
      if (this.text[this.at] !== this.separator) break
      this.at++
    }
    if (this.text.startsWith('\r\n', this.at)) this.at++
    this.at++
    this.line++
    return row
  }

  private plainCell(): string {
    this.plain.lastIndex = this.at
    const [cell = ''] = this.plain.exec(this.text) ?? []
    this.at += cell.length
    return cell
  }

  private quotedCell(row: CsvRow): string | undefined {
    let cell = ''
    let isMisquoted = false
    this.at++
    for (;;) {
      const end = this.text.indexOf('"', this.at)
      if (end < 0) return undefined
      cell += this.text.slice(this.at, end)
      this.at = end + 1
      if (this.text[this.at] === '"') {
        cell += '"'
        this.at++
      } else if (this.skipToEnd()) {
        if (isMisquoted && lineEnds(cell) > 0) return undefined
        row.isMisquoted ||= isMisquoted
        this.line += lineEnds(cell)
        return cell
      } else {
        isMisquoted = true
        cell += '"'
      }
    }
  }

  /** Skips blanks if a cell ends after them, and returns whether it does. */
  private skipToEnd(): boolean {
    let at = this.at
    while (this.text[at] === ' ') at++
    const next = this.text[at]
    if (next !== undefined && next !== this.separator && next !== '\r' && next !== '\n') return false
    this.at = at
    return true
  }
}

/** Writes rows as RFC 4180 has them. */
export function writeCsv(rows: string[][], separator: string): string {
  const cell = (text: string) =>
    text.includes(separator) || /["\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
  return rows.map((row) => `${row.map(cell).join(separator)}\r\n`).join('')
}

/** The first characters that spreadsheets take for a formula. */
const FORMULA = '[=+\\-@\\t\\r]'
const GUARDED = new RegExp(`^'+${FORMULA}`)
const TO_GUARD = new RegExp(`^'*${FORMULA}`)

/** Adds an apostrophe to a text that could be taken for a formula, or for a guarded one, as exports do. */
export const guarded = (text: string) => (TO_GUARD.test(text) ? `'${text}` : text)

/** Removes the apostrophe that an export added. */
export const unguarded = (cell: string) => (GUARDED.test(cell) ? cell.slice(1) : cell)
