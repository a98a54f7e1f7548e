import type { Fields } from '../api/shapes.ts'
import { Icon } from '../kit/icons.tsx'
import { type Key, t } from '../texts.ts'
import { check } from './password-rules.ts'
import look from './rule-list.module.css'

/** The rules for passwords, each with whether the typed password meets it. */
export function RuleList({ password, rules }: { password: string; rules: Fields }) {
  const checks = check(password, rules)
  if (checks.length === 0) return <p className={look.rules}>{t('password-rules.none')}</p>
  return (
    <>
      <ul className={look.rules}>
        {checks.map(({ rule, bound, isKept }) => (
          <li key={rule} data-kept={isKept && password !== '' ? '' : undefined}>
            <span className={look.sign} aria-hidden="true">
              {isKept && password !== '' ? <Icon name="check" /> : '·'}
            </span>
            {t(`password-rules.${rule}` as Key, { count: bound })}
            {password !== '' && (
              <span className="hidden">{` ${t(isKept ? 'password-rules.kept' : 'password-rules.broken')}`}</span>
            )}
          </li>
        ))}
      </ul>
      <p className="hidden" role="status">
        {password !== '' && t('password-rules.left', { count: checks.filter(({ isKept }) => !isKept).length })}
      </p>
    </>
  )
}
