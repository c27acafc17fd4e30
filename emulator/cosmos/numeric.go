package cosmos

import "math"

// The functions of numbers, which are IEEE doubles; those whose names begin with
// Int take them as 64-bit integers.

func onNumber(f func(float64) float64) function {
	return function{least: 1, most: 1, apply: func(_ *work, a []value) value {
		if n, ok := a[0].(number); ok {
			return numberOf(f(n.f))
		}
		return undefined{}
	}}
}

func onNumbers(f func(a, b float64) float64) function {
	return function{least: 2, most: 2, apply: func(_ *work, a []value) value {
		x, ok := a[0].(number)
		y, ok2 := a[1].(number)
		if !ok || !ok2 {
			return undefined{}
		}
		return numberOf(f(x.f, y.f))
	}}
}

func onIntegers(f func(a, b int64) value) function {
	return function{least: 2, most: 2, apply: func(_ *work, a []value) value {
		x, ok := wholeNumber(a[0])
		y, ok2 := wholeNumber(a[1])
		if !ok || !ok2 {
			return undefined{}
		}
		return f(x, y)
	}}
}

func quotient(a, b int64) value {
	if b == 0 {
		return undefined{}
	}
	return integerOf(a / b)
}

func remainder(a, b int64) value {
	if b == 0 {
		return undefined{}
	}
	return integerOf(a % b)
}

func sign(f float64) float64 {
	switch {
	case f > 0:
		return 1
	case f < 0:
		return -1
	}
	return 0
}

// logarithm is the natural one, or of the base in its second argument.
func logarithm(_ *work, a []value) value {
	n, ok := a[0].(number)
	if !ok {
		return undefined{}
	}
	if len(a) == 1 {
		return numberOf(math.Log(n.f))
	}
	base, ok := a[1].(number)
	if !ok {
		return undefined{}
	}
	return numberOf(math.Log(n.f) / math.Log(base.f))
}

// round takes halves away from zero, and keeps as many decimals as it is told to.
func round(_ *work, a []value) value {
	n, ok := a[0].(number)
	if !ok {
		return undefined{}
	}
	if len(a) == 1 {
		return numberOf(math.Round(n.f))
	}
	decimals, ok := wholeNumber(a[1])
	if !ok || decimals < -308 || decimals > 308 {
		return undefined{}
	}
	scale := math.Pow(10, float64(decimals))
	return numberOf(math.Round(n.f*scale) / scale)
}

// numberBin rounds down to a multiple of its second argument, which is 1 if absent.
func numberBin(_ *work, a []value) value {
	n, ok := a[0].(number)
	size := 1.0
	if len(a) == 2 {
		bin, ok2 := a[1].(number)
		if !ok2 {
			return undefined{}
		}
		size = bin.f
	}
	if !ok || size <= 0 {
		return undefined{}
	}
	return numberOf(math.Floor(n.f/size) * size)
}
