import look from '../generic/generic.module.css'
import { Link } from '../generic/go.tsx'
import { t } from '../texts.ts'

export function NotFound() {
  return (
    <div className={look.section}>
      <h1 tabIndex={-1}>{t('not-found.title')}</h1>
      <p>{t('not-found.text')}</p>
      <p>
        <Link to="/">{t('home')}</Link>
      </p>
    </div>
  )
}
