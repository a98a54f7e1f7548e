import type { Json } from '../api/shapes.ts'
import look from '../generic/generic.module.css'
import { Value } from '../kit/values.tsx'
import { named, t } from '../texts.ts'

/** What changed, as old and new value of each field. */
export function Changes({ value }: { value: Json }) {
  if (!value || typeof value !== 'object' || Array.isArray(value)) return null
  return (
    <ul className={look.changes}>
      {Object.entries(value).map(([alias, pair]) => {
        const [before, now] = Array.isArray(pair) ? pair : [null, pair]
        return (
          <li key={alias}>
            <span className={look.when}>{named('field', alias)}</span>{' '}
            {before !== null && before !== '' && (
              <>
                <del>
                  <Value type="string" value={before} isShort />
                </del>
                {' → '}
              </>
            )}
            {now === null || now === '' ? t('none') : <Value type="string" value={now} isShort />}
          </li>
        )
      })}
    </ul>
  )
}
