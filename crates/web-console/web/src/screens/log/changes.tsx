import { writeJson } from '../../api/json.ts'
import type { Json } from '../../api/shapes.ts'
import look from '../../generic/generic.module.css'
import { ByIds, isId } from '../../generic/log-values.tsx'
import { Moment } from '../../kit/values.tsx'
import { named, t } from '../../texts.ts'

/** The number of fields that are shown at first. */
const AT_ONCE = 4
const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/

const isNothing = (value: Json) => value === null || value === '' || (Array.isArray(value) && value.length === 0)

/** A value as one line; undefined for a value with parts. */
function line(value: Json): string | undefined {
  if (isNothing(value)) return t('none')
  if (typeof value === 'boolean') return t(value ? 'yes' : 'no')
  if (!Array.isArray(value)) return typeof value === 'object' ? undefined : `${value}`
  const texts = value.map(line)
  return texts.includes(undefined) ? undefined : texts.join(', ')
}

type TextOf = (alias: string, value: Json) => string | undefined

function Side({ alias, value, textOf }: { alias: string; value: Json; textOf: TextOf }) {
  const text = textOf(alias, value)
  if (text !== undefined) return text
  if (isId(alias, value)) return <ByIds alias={alias} value={value} />
  if (typeof value === 'string' && MOMENT.test(value)) return <Moment value={value} />
  return line(value) ?? <pre className={look.parts}>{writeJson(value, 1)}</pre>
}

function Change({ alias, pair, textOf }: { alias: string; pair: Json; textOf: TextOf }) {
  const [before = null, now = null] = Array.isArray(pair) ? pair : [null, pair]
  const sides = (
    <>
      {!isNothing(before) && (
        <>
          <del>
            <Side alias={alias} value={before} textOf={textOf} />
          </del>
          {' → '}
        </>
      )}
      <Side alias={alias} value={now} textOf={textOf} />
    </>
  )
  const hasParts = line(before) === undefined || line(now) === undefined
  return (
    <li>
      {hasParts ? (
        <details>
          <summary className={look.when}>{named('field', alias)}</summary>
          {sides}
        </details>
      ) : (
        <>
          <span className={look.when}>{named('field', alias)}</span> {sides}
        </>
      )}
    </li>
  )
}

/** The changed fields, with the old and the new value of each. A field with parts opens on demand. */
export function Changes({ value, textOf }: { value: Json; textOf: TextOf }) {
  if (!value || typeof value !== 'object' || Array.isArray(value)) return null
  const all = Object.entries(value).map(([alias, pair]) => (
    <Change key={alias} alias={alias} pair={pair} textOf={textOf} />
  ))
  if (all.length === 0) return null
  return (
    <ul className={look.changes}>
      {all.slice(0, AT_ONCE)}
      {all.length > AT_ONCE && (
        <li>
          <details>
            <summary className={look.when}>{t('and-more', { count: all.length - AT_ONCE })}</summary>
            <ul className={look.changes}>{all.slice(AT_ONCE)}</ul>
          </details>
        </li>
      )}
    </ul>
  )
}
