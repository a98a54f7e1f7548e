import { useQuery } from '@tanstack/react-query'
import generic from '../../generic/generic.module.css'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { t } from '../../texts.ts'
import { ownFactors } from './own-factors.ts'
import { SecondFactors } from './second-factors.tsx'

/** The page of an account that must have a second factor and has none. Everything else waits for it. */
export default function SecondFactorDue() {
  const { data } = useQuery(ownFactors)
  const isAdded = (data?.results.length ?? 0) > 0
  return (
    <div className={generic.main}>
      <h1 tabIndex={-1}>{t('factors.due')}</h1>
      {isAdded ? (
        <div className={css.notice} data-tone="ok" role="status">
          <p>{t('factors.due.done')}</p>
          <div className={css.actions}>
            <Button look="primary" onPress={() => location.reload()}>
              {t('continue')}
            </Button>
          </div>
        </div>
      ) : (
        <p>{t('factors.due.text')}</p>
      )}
      <SecondFactors />
    </div>
  )
}
