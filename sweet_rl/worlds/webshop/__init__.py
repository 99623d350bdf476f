"""WebShop: find what an instruction asks for, and buy it."""
