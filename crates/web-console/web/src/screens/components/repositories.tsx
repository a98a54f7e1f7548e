// The git repositories of components.

import { useState } from 'react'
import { Reading } from '../../generic/failure.tsx'
import look from '../../generic/generic.module.css'
import { Link } from '../../generic/go.tsx'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { ROUTE, useRepositories } from '../../shared/components/known.ts'
import { t } from '../../texts.ts'
import own from './components.module.css'
import { MakeRepository, mayChange, Repository } from './repository.tsx'

const SIZE = 25

export function Repositories() {
  const { data, reading } = useRepositories()
  const [isMaking, setIsMaking] = useState(false)
  const [count, setCount] = useState(SIZE)
  return (
    <>
      <nav className={look.trail} aria-label={t('trail')}>
        <Link to={ROUTE}>{t('custom-components')}</Link>
      </nav>
      <header className={look.head}>
        <h1 tabIndex={-1}>{t('repositories')}</h1>
        <div className={look.spacer} />
        {mayChange('create') && (
          <Button look="primary" icon="plus" onPress={() => setIsMaking(true)}>
            {t('repositories.import')}
          </Button>
        )}
      </header>
      <div className={look.main}>
        <p>{t('repositories.hint')}</p>
        <Reading of={reading} />
        {data?.length === 0 && <p className={look.nothing}>{t('repositories.none')}</p>}
        {data && (
          <ul className={own.repositories}>
            {data.slice(0, count).map((repository) => (
              <Repository key={repository.id} {...repository} />
            ))}
          </ul>
        )}
        {data && data.length > count && (
          <div className={css.actions}>
            <Button onPress={() => setCount(count + SIZE)}>{t('show-more', { count: data.length - count })}</Button>
          </div>
        )}
      </div>
      {isMaking && <MakeRepository onDone={() => setIsMaking(false)} />}
    </>
  )
}
